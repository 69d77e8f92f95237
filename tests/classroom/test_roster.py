"""The instructor's roster: students without a file, sections, and extensions."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from zoneinfo import ZoneInfo

import pytest

from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.gradebook.build import gradebook_of, make_gradebook
from gpututor.classroom.gradebook.exports.canvas import canvas
from gpututor.classroom.gradebook.exports.moodle import moodle
from gpututor.classroom.gradebook.marking import EXTENDED
from gpututor.classroom.gradebook.model import MarkStatus
from gpututor.classroom.gradebook.terminal import lines_of
from gpututor.classroom.roster import Enrolled, Roster, enrol, read_roster, with_extensions
from gpututor.classroom.rules import ExerciseRules, Extension, LatePolicy, Rules
from gpututor.classroom.submissions import Student
from gpututor.cli.main import main
from gpututor.errors import UsageError
from gpututor.grading.journal import write_entry
from tests.support.classes import class_with_options, key_at
from tests.support.gradebooks import EXERCISE, OTHER, Upload, gradebook, points

ROSTER = (
    "Student ID;Full Name;E-Mail;Section;Extension (hours);Seat\n"
    "501;Ada Lovelace;ada@example.org;Monday;48;1\n"
    "\n"
    "502;Grace Hopper;grace@example.org;Monday;;2\n"
    "503;Kim Roe;kim@example.org;Friday;;3\n"
)


@pytest.fixture
def folder(tmp_path: Path) -> ClassFolder:
    """Ada passed everything, late by the platform; Lee, who is in no roster, has 2 of 4 points."""
    folder = ClassFolder(tmp_path / "class")
    class_, _ = class_with_options(folder, [("501", EXERCISE, "a"), ("lee", EXERCISE, "b")])
    ada, lee = class_.submissions
    students = (Student("501", "alovelace", platform_id="501"), Student("lee"))
    class_ = replace(class_, students=students, layout="canvas", submissions=(replace(ada, late=True), lee))
    folder.write_class(class_)
    for position, earned in enumerate((4, 2)):
        write_entry(folder.journal, key_at(folder, position), points(earned, 4))
    return folder


@pytest.fixture
def roster(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    path.write_text(ROSTER, encoding="utf-8-sig")
    return path


def test_headers_and_separators_may_differ(roster: Path) -> None:
    read = read_roster(roster)
    assert read.students == (
        Enrolled("501", "Ada Lovelace", "ada@example.org", "Monday", 48.0),
        Enrolled("502", "Grace Hopper", "grace@example.org", "Monday"),
        Enrolled("503", "Kim Roe", "kim@example.org", "Friday"),
    )
    assert read.ignored == ("Seat",)
    roster.write_text("e-mail\tEXTRA_HOURS\nada@lab7\t1,5\n")
    assert read_roster(roster).students == (Enrolled("ada@lab7", "", "ada@lab7", "", 1.5),)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name,section\nkim,A\n", "line 1: there is no column `id`"),
        ("id,login\nkim,k\n", "line 1, column 'login': it is a column for the id, as 'id' is"),
        ("id,section\nkim,A\n,B\n", "line 3, column 'id': it is empty"),
        ("id\nkim\n\nKim\n", "line 4, column 'id': 'Kim' is in line 2, too"),
        ("id,submitted\nkim,2026-03-01\n", "line 2, column 'submitted': '2026-03-01' is not a time of a day"),
        ("id,extension\nkim,two days\n", "line 2, column 'extension': 'two days' is not a number of hours"),
        ("id,extension\nkim,-1\n", "line 2, column 'extension': '-1' is not a number of hours"),
        ('id,name\nkim,"a\nb"\n', "line 3, column 'name': 'a\\nb' is not a valid name"),
        ("id,extension\nkim,1,5\n", "line 2: 3 cells for 2 columns"),
        ('id,name\nkim,"Kim\nlee,Lee\n', "line 2: "),
        ("id,name\nkim,Kim\nlee,L\udce9e\n", "line 3: it is not UTF-8"),
        ("id,submitted\nkim,yesterday\n", "line 2, column 'submitted': 'yesterday' is not a time"),
        ("id,submitted\nkim,0001-01-01T00:00\n", "line 2, column 'submitted': '0001-01-01T00:00' is not a time"),
    ],
)
def test_a_mistake_has_its_line_and_column(roster: Path, text: str, problem: str) -> None:
    roster.write_text(text, errors="surrogateescape")
    with pytest.raises(UsageError) as raised:
        read_roster(roster)
    assert raised.value.title.startswith(f"{roster}, {problem}")
    assert raised.value.advice


def test_a_roster_without_students_or_without_a_file_is_refused(roster: Path) -> None:
    for text in ("", "id,name\n"):
        roster.write_text(text)
        with pytest.raises(UsageError):
            read_roster(roster)
    with pytest.raises(UsageError) as raised:
        read_roster(roster.with_name("none.csv"))
    assert "no such file" in raised.value.title


def test_the_gradebook_that_canvas_exports_is_a_roster(roster: Path) -> None:
    roster.write_text(
        "Student,ID,SIS User ID,SIS Login ID,Section,Born (4711)\n"
        ",,,,,Manual Posting\n"
        "    Points Possible,,,,,4\n"
        '"Roe, Kim",12005,k1,kroe,Sec A,\n'
        '"Student, Test",12006,,9d3c,Sec A,\n'
    )
    read = read_roster(roster)
    assert read.students == (Enrolled("12005", "Roe, Kim", section="Sec A"),)
    assert read.ignored == ("SIS User ID", "SIS Login ID", "Born (4711)")
    assert read.platform == "canvas"
    header = "LastName,FirstName,ID,SIS User ID,SIS Login ID,Section"
    roster.write_text(f"{header}\n    Points Possible,,,,,\nRoe,Kim,12005,k1,kroe,Sec A\n")
    assert read_roster(roster).students == (Enrolled("12005", "Kim Roe", section="Sec A"),)
    assert read_roster(roster).platform == "canvas"


@pytest.mark.parametrize("name", ["علی\u200cرضا", "श्री\u200dमान", "Kim\xa0Roe"])
def test_names_may_have_joiners_and_hard_spaces(roster: Path, name: str) -> None:
    roster.write_text(f"id,name\n1,{name}\n", encoding="utf-8")
    assert read_roster(roster).students == (Enrolled("1", name.replace("\xa0", " ")),)
    roster.write_text("id,name\n1,Kim\u202eeoR\n", encoding="utf-8")
    with pytest.raises(UsageError, match="not a valid name"):
        read_roster(roster)


WORKSHEET = (
    'Identifier,"Full name","Email address",Status,"Last modified (submission)"\n'
    '"Participant 1234567","Kim Roe",kim@example.org,,"Tuesday, 3 March 2026, 8:00 PM"\n'
    '"Participant 1234568","Kim Roe",ana@example.org,,-\n'
)


def test_moodles_worksheet_gives_times_and_keeps_students_of_one_name_apart(tmp_path: Path) -> None:
    folder = ClassFolder(tmp_path / "class")
    class_, _ = class_with_options(folder, [("1234567", EXERCISE, "a")])
    kim = Student("1234567", "Kim Roe", platform_id="1234567")
    folder.write_class(replace(class_, layout="moodle", students=(kim,)))
    write_entry(folder.journal, key_at(folder, 0), points(4, 4))
    rules = Rules(due=datetime(2026, 3, 1, 23, 59, tzinfo=ZoneInfo("Europe/Berlin")), late=LatePolicy(10))
    assert any("no submission has a time" in notice.title for notice in make_gradebook(folder, rules).notices)
    folder.roster_file.write_text(WORKSHEET)
    book = make_gradebook(folder, rules)
    assert {marks.student.id: marks.points for marks in book.students} == {"1234567": 3.2, "1234568": 0}
    assert not any("no submission has a time" in notice.title for notice in book.notices)
    nameless = make_gradebook(folder, rules, with_names=False)
    assert sorted(marks.points for marks in nameless.students) == [0, 3.2]
    folder.roster_file.write_text(WORKSHEET.replace(",Status", ",Username").replace("org,,", "org,kroe,"))
    british = read_roster(folder.roster_file).students[0]
    assert british.id == "1234567"
    folder.roster_file.write_text(WORKSHEET.replace("3 March 2026", "March 3, 2026"))
    assert read_roster(folder.roster_file).students[0] == british


def test_the_time_of_the_last_submission_is_not_that_of_earlier_ones(tmp_path: Path) -> None:
    class_ = gradebook([Upload("kim", None), Upload("kim", None), Upload("kim", None, OTHER)]).class_
    at = datetime(2026, 3, 3, 20, tzinfo=UTC)
    enrolment = enrol(class_, Rules(), Roster(tmp_path, (Enrolled("kim", submitted=at),)))
    times = [(file.attempt, file.submitted_at) for file in enrolment.class_.submissions]
    assert times == [(1, ""), (2, at.isoformat()), (1, at.isoformat())]


@pytest.mark.parametrize(
    ("exercise", "extension", "hour"),
    [
        (EXERCISE, (), 22),
        (OTHER, (), 21),
        (OTHER, (Extension("12", hours=48),), 21),
        (EXERCISE, (Extension("12", due=datetime.fromisoformat("2026-04-22T23:59+02:00")),), 21),
    ],
)
def test_a_time_without_a_zone_has_that_of_its_own_due_date(
    tmp_path: Path, exercise: str, extension: tuple[Extension, ...], hour: int
) -> None:
    due = datetime.fromisoformat("2026-03-01T23:59+01:00")
    own = MappingProxyType({OTHER: ExerciseRules(due=datetime.fromisoformat("2026-04-20T23:59+02:00"))})
    class_ = gradebook([Upload("12", None, exercise)], students=[Student("12", platform_id="12")]).class_
    roster = Roster(tmp_path, (Enrolled("12", submitted=datetime(2026, 4, 20, 23, 30)),))
    enrolment = enrol(class_, Rules(due=due, exercises=own, extensions=extension), roster)
    assert enrolment.class_.submissions[0].submitted_at == f"2026-04-20T{hour}:30:00+00:00"


def test_a_row_takes_over_nobody_with_its_number_but_another_name(tmp_path: Path) -> None:
    folder = ClassFolder(tmp_path / "class")
    class_, _ = class_with_options(folder, [("12005", EXERCISE, "a")])
    ada = Student("12005", "adalovelace", platform_id="12005")
    late = replace(class_.submissions[0], late=True)
    folder.write_class(replace(class_, layout="canvas", students=(ada,), submissions=(late,)))
    write_entry(folder.journal, key_at(folder, 0), points(4, 4))
    folder.roster_file.write_text("id,name,extension\n501,Ana Poe,\n12005,Grace Hopper,48\n")
    rules = Rules(late=LatePolicy(10))
    for with_names in (True, False):
        book = make_gradebook(folder, rules, with_names=with_names)
        assert len({marks.student.id for marks in book.students}) == 3
        assert max(marks.points for marks in book.students) == 3.6
        titles = [notice.title for notice in book.notices if "another name" in notice.title]
        assert ["Grace" in title and "adalovelace" in title for title in titles] == [with_names]
    assert make_gradebook(folder, rules).student("12005").student == ada


def test_a_name_of_two_people_matches_nobody(tmp_path: Path) -> None:
    class_ = gradebook([], students=[Student("501", "Kim Roe"), Student("777", "Kim Roe", "kim2@example.org")]).class_
    roster = Roster(tmp_path, (Enrolled("501", "Kim Roe"), Enrolled("502", "Kim Roe", "kim1@example.org")))
    enrolment = enrol(replace(class_, layout="gradescope"), Rules(), roster)
    assert enrolment.others == ("777",)
    assert enrolment.without_files == ("502",)


@pytest.mark.parametrize("name", ["Ada Lovelace", "Lovelace, Ada"])
def test_names_without_spaces_of_canvas_match(tmp_path: Path, name: str) -> None:
    class_ = gradebook([], students=[Student("12005", "lovelaceada", platform_id="12005")]).class_
    enrolment = enrol(replace(class_, layout="canvas"), Rules(), Roster(tmp_path, (Enrolled("501", name),)))
    assert enrolment.roster_ids == {"12005": "501"}


@pytest.mark.parametrize("student", ["Kim@Example.org", "KIM"])
def test_extensions_name_students_by_address_or_id(student: str) -> None:
    rules = with_extensions(Rules(extensions=(Extension(student, hours=48),)), [Student("kim", "", "kim@example.org")])
    assert rules.extends(EXERCISE, "kim")


def test_only_rosters_of_the_platform_give_its_numbers(tmp_path: Path) -> None:
    folder = ClassFolder(tmp_path / "class")
    class_, _ = class_with_options(folder, [("501", EXERCISE, "a")])
    bob = Student("501", "Bob Roe", "bob@x.org", "501")
    folder.write_class(replace(class_, layout="gradescope", students=(bob,)))
    folder.roster_file.write_text(f"{WORKSHEET}Participant 501,Kim Poe,,,-\n")
    enrolment = enrol(folder.read_class(), Rules(), read_roster(folder.roster_file))
    assert enrolment.class_.students[0] == bob
    assert all(not student.platform_id for student in enrolment.class_.students[1:])
    of_moodle = enrol(replace(class_, layout="moodle", students=(bob,)), Rules(), read_roster(folder.roster_file))
    ids = [student.platform_id for student in of_moodle.class_.students]
    assert ids == ["501", "1234567", "1234568"]


def test_students_without_a_file_have_zeros_in_means_and_files(folder: ClassFolder, roster: Path) -> None:
    without = make_gradebook(folder, Rules())
    assert without.exercises[0].mean_share == 0.75
    folder.roster_file.write_text(f"{ROSTER}lee;;;;;4\n")
    book = make_gradebook(folder, Rules())
    assert [(marks.student.id, marks.points, marks.section) for marks in book.students] == [
        ("501", 4, "Monday"),
        ("502", 0, "Monday"),
        ("503", 0, "Friday"),
        ("lee", 2, ""),
    ]
    assert book.exercises[0].mean_share == 6 / 16
    assert [(each.section, each.students, each.mean_share) for each in book.sections] == [
        ("Friday", 1, 0.0),
        ("Monday", 2, 0.5),
    ]
    text, notices = canvas(book)  # the numbers of Grace and Kim may be other people's at Canvas
    assert text.splitlines()[2:] == ["Ada Lovelace,501,,,,4"]
    assert any("502, 503, lee" in notice.title for notice in notices)
    assert any("'Seat'" in notice.title for notice in book.notices)
    assert ["Monday", "2", "2", "50%"] in [line.split() for line in lines_of(book, 80)]


def test_zeros_stay_open_while_a_student_with_files_matches_nobody(tmp_path: Path) -> None:
    folder = ClassFolder(tmp_path / "class")
    class_, _ = class_with_options(folder, [("900", EXERCISE, "a")])
    team = Student("900", "Team A", platform_id="900")
    folder.write_class(replace(class_, layout="moodle", students=(team,)))
    write_entry(folder.journal, key_at(folder, 0), points(4, 4))
    worksheet = WORKSHEET.replace("Status", "Grade")
    folder.roster_file.write_text(worksheet)
    rules = Rules(assigned=(EXERCISE, OTHER))
    book = make_gradebook(folder, rules)
    statuses = [mark.status for mark in book.student("1234567").marks]
    assert statuses == [MarkStatus.NOT_HANDED_IN, MarkStatus.OPEN]  # nobody submitted the first one
    assert book.exercise(EXERCISE).mean_share == 1
    assert [row[3] for row in csv.reader(moodle(book, folder.roster_file)[0].splitlines())] == ["Grade", "", ""]
    assert any("(900)" in notice.title and "2 students" in notice.advice for notice in book.notices)
    nameless = make_gradebook(folder, rules, with_names=False)
    assert sorted(marks.open for marks in nameless.students) == [0, 1, 1]
    folder.roster_file.write_text(f"{worksheet}Participant 900,Team A,,,-\n")
    assert all(marks.final for marks in make_gradebook(folder, rules).students)


def test_an_extension_counts_without_a_time_and_report_takes_any_roster(
    folder: ClassFolder, roster: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    late = Rules(late=LatePolicy(10))
    assert make_gradebook(folder, late).student("501").points == 3.6
    book = make_gradebook(folder, late, roster=roster)
    mark = book.student("501").mark_of(EXERCISE)
    assert (mark.mark, mark.reason) == (4, EXTENDED)
    assert any("with an extension, so nothing is taken off" in notice.title for notice in book.notices)
    own = Rules(late=LatePolicy(10), extensions=(Extension("501", hours=48),))
    assert make_gradebook(folder, own).student("501").points == 4
    others = Rules(late=LatePolicy(10), extensions=(Extension("501", "another/exercise", hours=48),))
    assert make_gradebook(folder, others).student("501").points == 3.6
    assert main(["classroom", "report", str(folder.folder), "--roster", str(roster), "--json"]) == 0
    students = json.loads(capsys.readouterr().out)["students"]
    assert [(each["student"], each["section"]) for each in students][:2] == [("501", "Monday"), ("502", "Monday")]
    roster.write_text("id\nkim\nkim\n")
    assert main(["classroom", "report", str(folder.folder), "--roster", str(roster)]) == 2
    assert "line 3" in capsys.readouterr().err


def test_an_extension_of_the_roster_adds_hours_to_the_due_date(roster: Path, tmp_path: Path) -> None:
    path = tmp_path / "classroom.toml"
    due = Rules(due=datetime.fromisoformat("2026-03-01T12:00:00+00:00"), late=LatePolicy(10), path=path)
    upload = Upload("501", points(4, 4), submitted_at="2026-03-03T11:00:00+00:00")
    assert _points([upload], due) == 3.2
    enrolment = enrol(gradebook([upload]).class_, due, read_roster(roster))
    assert _points([upload], enrolment.rules) == 4
    assert _points([replace(upload, submitted_at="2026-03-03T13:00:00+00:00")], enrolment.rules) == 3.6
    empty = gradebook_of(enrolment.class_, {}, enrolment.rules, {}, sections=enrolment.sections)
    assert [marks.student.id for marks in empty.students] == ["501", "502", "503"]


def _points(files: Sequence[Upload], rules: Rules) -> float:
    return gradebook(files, rules).student("501").points

"""Marks by hand and the history: in every report and file, beyond regrades, with reasons and authors."""

from __future__ import annotations

import csv
import json
import unicodedata
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from gpututor.classroom.feedback import SubmittedLines, feedback
from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.gradebook.build import make_gradebook
from gpututor.classroom.gradebook.exports.canvas import canvas
from gpututor.classroom.gradebook.exports.moodle import moodle
from gpututor.classroom.gradebook.model import Gradebook, Mark, MarkStatus
from gpututor.classroom.gradebook.terminal import lines_of
from gpututor.classroom.history import HistoryEntry, HistoryEvent, add_entry, now, read_history
from gpututor.classroom.intake.names import unique_ids
from gpututor.classroom.jobs import Options
from gpututor.classroom.regrade import accept_regrade
from gpututor.classroom.review import ReviewReason, review_of
from gpututor.classroom.rules import ExerciseRules, Extension, LatePolicy, Rules
from gpututor.classroom.submissions import Student
from gpututor.cli.main import main
from gpututor.errors import UsageError
from gpututor.grading.journal import read_entry, write_entry
from gpututor.grading.report import Outcome
from tests.support.classes import class_with_options, describe_tiny_checks, graded_class, key_at, report_of
from tests.support.classroom_app import ONE, files, judged
from tests.support.gradebooks import EXERCISE, OTHER, points
from tests.support.scripted_client import ScriptedClient
from tests.support.tiny_course import RIGHT, write_course

WHY = "The task was unclear <here>."


@pytest.fixture
def folder(tmp_path: Path) -> ClassFolder:
    """Kim has 2 of 3 points and no file for the other exercise; Lee's files are rejected, and not graded."""
    folder = ClassFolder(tmp_path / "class")
    class_, _ = class_with_options(folder, [("kim", EXERCISE, "a"), ("lee", EXERCISE, "b"), ("lee", OTHER, "c")])
    students = (replace(class_.students[0], name="Kim Roe", platform_id="501"), class_.students[1])
    folder.write_class(replace(class_, students=students, layout="canvas"))
    write_entry(folder.journal, key_at(folder, 0), points(2, 3))
    write_entry(folder.journal, key_at(folder, 1), report_of(EXERCISE, Outcome.REJECTED, reason="Too large."))
    return folder


def mark(folder: ClassFolder, *words: str, why: str = WHY) -> int:
    return main(["classroom", "mark", str(folder.folder), *words, "--why", why, "--by", "Ada"])


def mark_in(book: Gradebook, student: str = "kim", exercise: str = EXERCISE) -> Mark:
    return book.student(student).mark_of(exercise)


def test_a_mark_by_hand_counts_whatever_is_graded_later(
    folder: ClassFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert mark(folder, "Kim Roe", "5.3", "2.5") == 0
    assert "2.5 of 3 by hand (computed: 2)" in capsys.readouterr().out
    assert mark(folder, "lee", "hidden_syncs", "1") == 0
    assert mark(folder, "kim", OTHER, "1") == 0
    book = make_gradebook(folder, Rules())
    assert [(each.shown_word, each.computed_word) for _, _, each in book.by_hand] == [
        ("1", "not submitted"),
        ("2.5", "2"),
        ("1", "rejected"),
    ]
    assert book.student("kim").points == 3.5
    assert mark_in(book, "lee").status is MarkStatus.FINAL
    assert not [item for item in review_of(folder, book).items if item.kind is ReviewReason.REFUSED]
    write_entry(folder.journal, key_at(folder, 0), points(3, 3))
    again = mark_in(make_gradebook(folder, Rules()))
    assert (again.mark, again.computed_word) == (2.5, "3")
    assert mark(folder, "kim", EXERCISE, "--clear", why="A mistake of mine") == 0
    assert mark_in(make_gradebook(folder, Rules())).mark == 3
    assert [entry.event for entry in read_history(folder)] == [HistoryEvent.MARKED] * 3 + [HistoryEvent.CLEARED]


def test_every_file_shows_a_mark_by_hand(folder: ClassFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert mark(folder, "kim", EXERCISE, "2.5") == 0
    assert main(["classroom", "report", str(folder.folder), "--all"]) == 0
    assert main(["classroom", "feedback", str(folder.folder)]) == 0
    book = make_gradebook(folder, Rules())
    words = mark_in(book).by_hand_words
    assert words.startswith("2.5 instead of 2, by Ada on ")
    assert words.endswith(f": {WHY}")
    table = list(lines_of(book, 120))
    assert any("2.5*" in line for line in table)
    assert any(line.startswith("kim (Kim Roe), 5.3: 2.5 instead of 2") for line in table)
    (row, _) = csv.DictReader((folder.exports / "marks.csv").read_text().splitlines())
    assert (row[EXERCISE], row["by_hand"]) == ("2.5", f"{EXERCISE}: {words}")
    checks = csv.DictReader((folder.exports / "checks.csv").read_text().splitlines())
    kims = [row for row in checks if row["student"] == "kim" and row["exercise"] == EXERCISE]
    assert {(row["mark"], row["by_hand"], row["computed"]) for row in kims} == {("2.5", "yes", "2")}
    text, notices = canvas(book)
    assert "Kim Roe,501,,,,0,2.5" in text
    assert any("kim 5.3: 2.5 (2)" in notice.title for notice in notices)
    of_moodle = replace(book, class_=replace(book.class_, layout="moodle"))
    assert "2.5 of 3 points, by hand: The task was unclear" in moodle(of_moodle)[0]
    results = json.loads((folder.exports / "gradescope" / "kim" / "results.json").read_text())
    by_hand = next(test for test in results["tests"] if test["name"] == "5.3 Hidden syncs: mark by hand")
    assert (results["score"], by_hand["score"]) == (2.5, 2.5)
    assert WHY in by_hand["output"]
    assert by_hand["output"].endswith(": 2")
    page = (folder.exports / "index.html").read_text()
    assert ">2.5*</a>" in page
    assert "<td>2.5</td><td>2</td><td>Ada</td>" in page
    assert "The task was unclear &lt;here&gt;." in page
    cases = ET.fromstring((folder.exports / "junit.xml").read_text()).iter("testcase")
    assert [case.findtext("system-out") for case in cases if case.get("name") == "mark by hand"] == [words]
    report = (folder.feedback / "kim.md").read_text()
    assert "by hand: The task was unclear \\<here\\>. The checks alone gave 2." in report
    assert "2.5 of 3 points" in report
    capsys.readouterr()
    assert main(["classroom", "report", str(folder.folder), "--json"]) == 0
    marks = json.loads(capsys.readouterr().out)["students"][0]["marks"]
    in_json = {each["exercise"]: each["by_hand"] for each in marks}
    assert in_json == {OTHER: None, EXERCISE: in_json[EXERCISE]}
    assert {"points": 2.5, "by": "Ada", "why": WHY, "computed": "2"}.items() <= in_json[EXERCISE].items()


def test_the_feedback_on_an_undecided_submission_gives_the_mark_and_no_details(folder: ClassFolder) -> None:
    odd = report_of(EXERCISE, Outcome.NEEDS_REVIEW, points(3, 3).verdicts, suspicions=("line 3 reaches for gpututor",))
    write_entry(folder.journal, key_at(folder, 0), odd)
    mark(folder, "kim", EXERCISE, "3")
    book = make_gradebook(folder, Rules())
    text = feedback(book, book.student("kim"), SubmittedLines(folder), {})
    assert "3 of 3 points" in text
    assert "no mark yet" not in text
    assert "reaches" not in text
    assert "checks alone" not in text


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("kim", EXERCISE, "5.5"), "from 0 to 5."),
        (("kim", EXERCISE, "-1"), "from 0 to 5."),
        (("kim", EXERCISE, "good"), "'good'"),
        (("kin", EXERCISE, "1"), "Did you mean 'kim'?"),
        (("", EXERCISE, "1"), "name is empty"),
        (("kim", "hidden_sync", "1"), "Did you mean 'hidden_syncs'?"),
        (("kim", EXERCISE), "either a MARK or --clear"),
        (("kim", EXERCISE, "1", "--clear"), "either a MARK or --clear"),
        (("kim", EXERCISE, "--clear"), "no mark by hand"),
    ],
)
def test_a_wrong_mark_or_one_without_a_reason_is_refused(
    folder: ClassFolder, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], answer: str
) -> None:
    write_entry(folder.journal, key_at(folder, 0), points(2, 5))
    assert mark(folder, *words) == 2
    assert answer in capsys.readouterr().err
    assert mark(folder, "kim", EXERCISE, "1", why=" ") == 2
    assert "--why" in capsys.readouterr().err
    assert read_history(folder) == ()


def test_marks_that_do_not_fit_are_warnings(folder: ClassFolder) -> None:
    entry = HistoryEntry(HistoryEvent.MARKED, "kim", EXERCISE, "Ada", WHY, now(), 3.0)
    for each in (entry, replace(entry, student="gone"), replace(entry, exercise="gone/gone")):
        add_entry(folder, each)
    rules = Rules(exercises={EXERCISE: ExerciseRules(points=dict.fromkeys(("placement", "parity", "syncs"), 0.5))})
    book = make_gradebook(folder, rules)
    titles = [notice.title for notice in book.notices]
    assert [title for title in titles if "more than the exercise is worth now: 1.5" in title]
    assert [title for title in titles if "of gone for" in title and "no such student" in title]
    assert [title for title in titles if "gone/gone" in title and "no such exercise" in title]
    assert mark_in(book).mark == 3


def test_entries_are_never_replaced_and_a_broken_one_is_an_error(folder: ClassFolder) -> None:
    entry = HistoryEntry(HistoryEvent.MARKED, "kim", EXERCISE, "Ada", WHY, now(), 3.0)
    first, second = (add_entry(folder, replace(entry, points=points)) for points in (1.0, 2.0))
    content = first.read_bytes()
    first.unlink()
    third = add_entry(folder, entry)
    assert [each.name for each in (second, third)] == ["000002.json", "000003.json"]
    assert [each.points for each in read_history(folder)] == [2.0, 3.0]
    first.write_bytes(content[:-20])
    with pytest.raises(UsageError, match=first.name):
        make_gradebook(folder, Rules())


@pytest.mark.parametrize("is_graded", [True, False])
def test_a_regrade_that_the_history_refuses_does_not_count(
    folder: ClassFolder, monkeypatch: pytest.MonkeyPatch, is_graded: bool
) -> None:
    def refuse(folder: ClassFolder, entry: HistoryEntry) -> Path:
        raise UsageError("The disk is full.", "")

    monkeypatch.setattr("gpututor.classroom.regrade.add_entry", refuse)
    key = key_at(folder, 0)
    if not is_graded:
        key.file_in(folder.journal).unlink()
    with pytest.raises(UsageError):
        accept_regrade(folder, folder.read_class().submissions[0], key, points(3, 3), "Bo")
    entry = read_entry(folder.journal, key)
    assert entry is None if not is_graded else entry is not None and entry.points == 2


def test_a_crash_in_a_regrade_leaves_no_mark_without_an_entry(
    folder: ClassFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    submission, key = folder.read_class().submissions[0], key_at(folder, 0)
    for error, entries in ((KeyboardInterrupt, 1), (OSError, 1)):
        monkeypatch.setattr("gpututor.classroom.regrade.write_entry", Mock(side_effect=error))
        with pytest.raises(error):
            accept_regrade(folder, submission, key, points(3, 3), "Bo")
        assert len(read_history(folder)) == entries
        counted = read_entry(folder.journal, key)
        assert counted is not None
        assert counted.points == 2


def test_a_regrade_is_in_the_log_of_all_students_with_the_text(
    folder: ClassFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    class_, _ = class_with_options(folder, [("kim", EXERCISE, "a"), ("lee", EXERCISE, "a"), ("moe", EXERCISE, "b")])
    accept_regrade(folder, class_.submissions[0], key_at(folder, 0), points(3, 3), "Bo", "It was noisy")
    for words in ([], ["--pseudonyms"]):
        assert main(["classroom", "log", str(folder.folder), "--json", *words]) == 0
        entries = [
            entry for entry in json.loads(capsys.readouterr().out)["entries"] if entry["event"] == HistoryEvent.REGRADED
        ]
        assert [(entry["by"], entry["why"]) for entry in entries] == [("Bo", "It was noisy")] * 2
        assert len({entry["student"] for entry in entries}) == 2
        assert words or {entry["student"] for entry in entries} == {"kim", "lee"}


def test_the_log_has_gradings_regrades_and_marks(folder: ClassFolder, capsys: pytest.CaptureFixture[str]) -> None:
    mark(folder, "kim", EXERCISE, "2.5")
    submission = folder.read_class().submissions[0]
    old = accept_regrade(folder, submission, key_at(folder, 0), points(3, 3), "Bo", "It was noisy")
    assert old is not None
    assert old.parent == folder.replaced
    mark(folder, "kim", EXERCISE, "--clear", why="No longer needed")
    capsys.readouterr()
    assert main(["classroom", "log", str(folder.folder), "kim"]) == 0
    lines = [line.split("  ", 3)[1:] for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        ["kim", "5.3", "graded: passed, 3 of 3 points  kim/hidden_syncs.py"],
        ["kim", "5.3", f"marked 2.5 by hand (before: 2), by Ada: {WHY}"],
        ["kim", "5.3", "graded again: passed, 3 of 3 points (before: failed, 2 of 3 points), by Bo: It was noisy"],
        ["kim", "5.3", "mark by hand removed (before: 2.5), by Ada: No longer needed"],
    ]
    assert main(["classroom", "log", str(folder.folder), "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)["entries"]
    assert sorted((each["student"], each["event"]) for each in entries) == [
        ("kim", "cleared"),
        ("kim", "graded"),
        ("kim", "marked"),
        ("kim", "regraded"),
        ("lee", "graded"),
    ]


def test_regrade_grades_one_submission_and_asks_before_it_replaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    describe_tiny_checks(monkeypatch)
    folder = ClassFolder(tmp_path / "class")
    course = write_course(tmp_path / "course", exercises=2, lessons=2)
    graded_class(folder, files(), course)
    monkeypatch.setattr("gpututor.cli.classroom.regrade.GradingClient", lambda *_, **__: ScriptedClient())
    same = ["classroom", "regrade", str(folder.folder), "ada", "1.1"]
    assert main(same) == 0
    assert "The same result again." in capsys.readouterr().out
    assert main([*same, "--attempt", "2"]) == 2
    assert "The attempts are 1." in capsys.readouterr().err
    assert main([*same[:-1], "2.1"]) == 2
    assert "gpututor classroom report" in capsys.readouterr().err
    submission = next(each for each in folder.read_class().submissions if each.student == "ada")
    key = Options.read(folder).key_of(submission)
    assert key is not None
    old = judged(ONE, RIGHT, passes=False)
    write_entry(folder.journal, key, old)
    assert main([*same, "--why", "Noise"]) == 1
    assert read_entry(folder.journal, key) == old
    assert main([*same, "--why", "Noise", "--by", "Bo", "--accept"]) == 0
    counted = read_entry(folder.journal, key)
    assert counted is not None
    assert counted.outcome is Outcome.PASSED
    (entry,) = read_history(folder)
    assert (entry.event, entry.student, entry.by, entry.why) == (HistoryEvent.REGRADED, "ada", "Bo", "Noise")
    assert len(list(folder.replaced.iterdir())) == 1


def test_a_mark_of_a_roster_student_stays_after_the_first_upload(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = ClassFolder(tmp_path / "roster")
    lee = Student("lee@x.org", "Lee Moe", "lee@x.org")
    ada = Student("ada@x.org", "Ada Lovelace", "ada@x.org")
    lees, adas = ((student.id, EXERCISE, student.id) for student in (lee, ada))
    class_, _ = class_with_options(folder, [lees])
    folder.write_class(replace(class_, layout="gradescope", students=(lee,)))
    write_entry(folder.journal, key_at(folder, 0), points(1, 4))
    folder.roster_file.write_text("id,name,email\n501,Ada Lovelace,ada@x.org\n502,Lee Moe,lee@x.org\n")
    assert mark(folder, "501", "5.3", "3") == 0
    class_, _ = class_with_options(folder, [lees, adas])
    late = replace(class_.submissions[1], late=True)
    submissions = (class_.submissions[0], late)
    folder.write_class(replace(class_, layout="gradescope", students=(lee, ada), submissions=submissions))
    write_entry(folder.journal, key_at(folder, 1), points(4, 4))
    rules = Rules(late=LatePolicy(10), extensions=(Extension("501", hours=48),))
    for with_names in (True, False):
        book = make_gradebook(folder, rules, with_names=with_names)
        assert sorted(marks.points for marks in book.students) == [1, 3]
        assert not [notice for notice in book.notices if "does not count" in notice.title or "501" in notice.title]
    capsys.readouterr()
    assert main(["classroom", "log", str(folder.folder), "ada@x.org", "--json"]) == 0
    assert "marked" in [entry["event"] for entry in json.loads(capsys.readouterr().out)["entries"]]
    assert mark(folder, "ada@x.org", "5.3", "--clear") == 0
    assert make_gradebook(folder, rules).student("ada@x.org").points == 4  # the extension of 501 is hers, too


def test_a_mark_stays_when_the_platform_gives_its_student_another_id(tmp_path: Path) -> None:
    folder = ClassFolder(tmp_path / "class")
    class_, _ = class_with_options(folder, [("ada@x.org", EXERCISE, "a"), ("kim", EXERCISE, "b")])
    ada = Student("ada@x.org", "Ada Lovelace", "Ada@x.org")
    folder.write_class(replace(class_, layout="gradescope", students=(ada, Student("kim"))))
    for student in ("ada@x.org", "kim"):
        assert mark(folder, student, "5.3", "3") == 0
    ids = unique_ids([("kim", "kim"), ("Kim", "Kim")])
    class_, _ = class_with_options(
        folder, [("501", EXERCISE, "a"), (ids["kim"], EXERCISE, "b"), (ids["Kim"], EXERCISE, "c")]
    )
    students = (replace(ada, id="501"), *map(Student, ids.values()))
    folder.write_class(replace(class_, layout="gradescope", students=students))
    book = make_gradebook(folder, Rules())
    by_hand = {marks.student.id for marks in book.students if marks.mark_of(EXERCISE).by_hand is not None}
    assert by_hand == {"501", ids["kim"]}
    assert not [notice for notice in book.notices if "does not count" in notice.title]


def test_a_mark_of_a_roster_student_never_moves_to_a_platforms_number(tmp_path: Path) -> None:
    folder = ClassFolder(tmp_path / "class")
    class_, _ = class_with_options(folder, [("ana", EXERCISE, "a")])
    folder.write_class(replace(class_, layout="canvas"))
    folder.roster_file.write_text("id,name\n501,Kim Roe\nana,Ana Poe\n")
    assert mark(folder, "501", "5.3", "3") == 0
    class_, _ = class_with_options(folder, [("ana", EXERCISE, "a"), ("501", EXERCISE, "b")])
    students = (class_.students[0], Student("501", "moelee", platform_id="501"))
    folder.write_class(replace(class_, layout="canvas", students=students))
    book = make_gradebook(folder, Rules())
    assert mark_in(book, "501").by_hand is None
    assert mark_in(book, "501 (roster)").mark == 3


def test_names_match_with_accents_as_macos_writes_them(tmp_path: Path) -> None:
    folder = ClassFolder(tmp_path / "class")
    jose = unicodedata.normalize("NFD", "José")
    class_with_options(folder, [(jose, EXERCISE, "a")])
    folder.roster_file.write_text("id,section\nJosé,Monday\n", encoding="utf-8")
    (marks,) = make_gradebook(folder, Rules()).students
    assert (marks.student.id, marks.section) == (jose, "Monday")
    assert mark(folder, "josé", "5.3", "-0") == 0
    assert str(mark_in(make_gradebook(folder, Rules()), jose).mark) == "0.0"

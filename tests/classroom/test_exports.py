"""Exports of the gradebook, CSV tables, and folder names of students."""

from __future__ import annotations

import csv
import importlib
import io
import json
import pkgutil
import string
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gpututor.classroom.feedback import MORE_CHECKS
from gpututor.classroom.folder import ClassFolder, folder_name
from gpututor.classroom.gradebook import exports
from gpututor.classroom.gradebook.exports import EXPORTS, Export, ExportRequest
from gpututor.classroom.gradebook.exports.canvas import canvas
from gpututor.classroom.gradebook.exports.csv import LONG, WIDE, long, wide
from gpututor.classroom.gradebook.exports.gradescope import gradescope
from gpututor.classroom.gradebook.exports.junit import junit, legal
from gpututor.classroom.gradebook.exports.moodle import moodle
from gpututor.classroom.gradebook.json_form import as_json
from gpututor.classroom.gradebook.model import Gradebook
from gpututor.classroom.rules import ExerciseRules, LatePolicy, Rules
from gpututor.classroom.submissions import Student
from gpututor.classroom.tables import PlatformCell, csv_text, number
from gpututor.cli.main import main
from gpututor.errors import UsageError
from gpututor.grading.report import Outcome, Status
from tests.support import ROOT
from tests.support.classes import report_of
from tests.support.gradebooks import EXERCISE, OTHER, Upload, gradebook, points, report, verdict
from tests.support.report_strategies import TEXTS

HIDDEN = Rules(exercises=MappingProxyType({EXERCISE: ExerciseRules(hidden=("parity",))}), late=LatePolicy(10))
ADA = Student("ada", "Ada Lovelace", "ada@example.org", "501")
GRACE = Student("grace", "Grace Hopper", "grace@example.org", "502")
GUIDE = ROOT / "docs" / "classroom" / "rules.md"
FEW = settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])


def of_layout(book: Gradebook, layout: str) -> Gradebook:
    return replace(book, class_=replace(book.class_, layout=layout))


def book(rules: Rules | None = None) -> Gradebook:
    """Make a gradebook: Ada has 3 of 4, late, and 2 of 2; Grace has an open mark and one missing file."""
    speed = report(verdict("placement"), verdict("speed", Status.INCONCLUSIVE, got="0.9 × the baseline", of=3))
    wrong = report(
        verdict("loads", of=0),
        *(verdict(name) for name in ("placement", "syncs", "transfers")),
        verdict("parity", Status.FAILED, expected="3", got="4 <&> 'x'", line=7, why="<b>"),
        exercise=EXERCISE,
    )
    files = [
        Upload("ada", wrong, EXERCISE, late=True),
        Upload("ada", points(2, 2, exercise=OTHER), OTHER),
        Upload("grace", speed, EXERCISE),
    ]
    return gradebook(files, rules or HIDDEN, [GRACE, ADA])


def test_every_export_is_in_the_registry_once() -> None:
    modules = [
        importlib.import_module(f"{exports.__name__}.{each.name}") for each in pkgutil.iter_modules(exports.__path__)
    ]
    declared = {each.option: each for module in modules for each in vars(module).values() if isinstance(each, Export)}
    assert declared == {export.option: export for export in EXPORTS}
    assert len({export.option for export in EXPORTS}) == len({export.place for export in EXPORTS}) == len(EXPORTS)


@pytest.mark.parametrize("export", EXPORTS, ids=lambda export: export.option)
def test_every_export_has_an_option_a_writer_and_docs(
    export: Export, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["classroom", "report", "--help"])
    options = " ".join(capsys.readouterr().out.split())
    assert f"--{export.option} {export.metavar} {export.help}" in options
    words = f"{export.help[0].upper()}{export.help[1:]}"
    guide = GUIDE.read_text(encoding="utf-8")
    assert f"| `--{export.option} {export.metavar}` | {words}" in guide, f"{GUIDE.name} has a row for the option"
    if export.roster_help:
        assert f"--{export.option}-roster FILE {export.roster_help}" in options
        assert f"`--{export.option}-roster`" in guide
    path = tmp_path / export.place
    list(export.write(ExportRequest(of_layout(book(), export.layout), ClassFolder(tmp_path), path)))
    written = path / "ada" / export.file_name if export.file_name else path
    assert written.stat().st_size > 100


def rows(text: str, delimiter: str = ",") -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))


@given(st.lists(st.lists(TEXTS | st.text(st.sampled_from("=+-@\t\r\n '\"a1;,")), min_size=2, max_size=3), min_size=1))
@FEW
def test_no_text_cell_starts_like_a_formula(cells: list[list[str]]) -> None:
    text = csv_text(cells)
    text.encode()
    for written, row in zip(rows(text), cells, strict=True):
        for cell, given_text in zip(written, row, strict=True):
            assert not cell.lstrip(" ").startswith(("=", "+", "-", "@", "\t", "\r", "\n"))
            plain = all(letter in string.ascii_letters + string.digits + " ',;\"" for letter in given_text)
            assert not plain or cell == given_text


@pytest.mark.parametrize("sign", "=+-@\uff1d\uff0b\uff0d\uff20")
@pytest.mark.parametrize("written", [",", ";", "\t"])
@pytest.mark.parametrize("taken", [",", ";", "\t"])
def test_no_delimiter_turns_a_text_into_a_formula(sign: str, written: str, taken: str) -> None:
    formula = f"{sign}cmd|' /C calc'!A0&"
    begins = ("", " ", "\u00a0", "x;", "x,", "x\t ", "x\n", 'x;"', "x, '\"", "x\r\n")
    text = csv_text([["kim", f"{begin}{formula}"] for begin in begins], written)
    for line in text.splitlines():  # as a spreadsheet with another delimiter reads it
        for cell in line.split(taken) if taken != written else []:
            assert not cell.lstrip(' "\u00a0').startswith(sign), cell
    for _, cell in rows(text, written):
        assert not cell.lstrip(" \u00a0").startswith(sign)


def test_numbers_and_harmless_platform_cells_stay() -> None:
    assert csv_text([[-1.5, 2.0, 1e-9, None, "-1"]]) == "-1.5,2,0,,'-1\n"
    assert csv_text(
        [[PlatformCell("-3.5"), PlatformCell("-"), PlatformCell("12,5"), PlatformCell("-1+cmd"), PlatformCell("=1")]],
        ";",
    ) == ("-3.5;-;12,5;'-1+cmd;'=1\n")
    assert (number(1e21), number(1 / 3), number(0.0)) == ("1000000000000000000000", "0.333333", "0")


def test_tables_have_rows_for_students_or_checks_and_json_open_marks() -> None:
    assert rows(wide(book())) == [
        [*WIDE, EXERCISE, OTHER],
        ["ada", "Ada Lovelace", "ada@example.org", "", "4.7", "4.7", "9", "0", "0", "", "2.7", "2"],
        ["grace", "Grace Hopper", "grace@example.org", "", "open", "1", "9", "1", "0", "", "open", "0"],
    ]
    table = [dict(zip(LONG, row, strict=True)) for row in rows(long(book()))[1:]]
    ada = [row for row in table if (row["student"], row["exercise"]) == ("ada", EXERCISE)]
    assert [(row["check"], row["check_points"], row["hidden"]) for row in ada] == [
        ("loads", "0", "no"),
        ("placement", "1", "no"),
        ("syncs", "1", "no"),
        ("transfers", "1", "no"),
        ("parity", "0", "yes"),
    ]
    assert {(row["mark"], row["late_per_cent"], row["deduction"], row["attempts"]) for row in ada} == {
        ("2.7", "10", "0.3", "1")
    }
    nothing = next(row for row in table if (row["student"], row["exercise"]) == ("grace", OTHER))
    assert (nothing["standing"], nothing["mark"], nothing["check"]) == ("not handed in", "0", "")
    grace = next(row for row in table if (row["student"], row["exercise"]) == ("grace", EXERCISE))
    assert (grace["mark"], grace["so_far"], grace["standing"]) == ("", "1", "open")
    data = json.loads(json.dumps(as_json(book())))
    ada, grace = data["students"]
    assert (ada["points"], ada["so_far"], grace["points"], grace["so_far"]) == (4.7, 4.7, None, 1)
    assert [mark["mark"] for mark in grace["marks"]] == [None, 0]
    hidden = [check["check"] for exercise in data["exercises"] for check in exercise["checks"] if check["hidden"]]
    assert hidden == ["parity"]


def test_gradescope_gets_checks_times_and_tags_and_hides_hidden_ones() -> None:
    files, notices = gradescope(book())
    assert list(files) == ["ada/results.json", "grace/results.json"]
    assert files["grace/results.json"] is None
    assert len(notices) == 1
    results = json.loads(files["ada/results.json"] or "")
    assert results["score"] == 4.7
    assert results["stdout_visibility"] == "hidden"
    by_name = {test["name"]: test for test in results["tests"]}
    assert len(by_name) == len(results["tests"]) == 7
    hidden = by_name[f"{EXERCISE}: parity"]
    assert (hidden["visibility"], hidden["score"], hidden["max_score"], hidden["status"]) == ("hidden", 0, 1, "failed")
    shown = [test for name, test in by_name.items() if test["visibility"] == "visible" and EXERCISE in name]
    assert len(shown) == 4
    assert "parity" not in json.dumps([shown, results["output"]])
    assert {test["visibility"] for test in results["tests"]} == {"visible", "hidden"}
    assert MORE_CHECKS in results["output"]
    assert "10 percent" in results["output"]
    speed = verdict("speed", measured="0.81 × the baseline: 10 μs against 12 μs")
    fast = report(verdict("placement"), speed)
    wrong = report(verdict("parity", Status.FAILED), speed)
    uploads = [Upload("ada", fast), Upload("grace", wrong)]
    by_rules = {}
    for name, rules in {"seen": Rules(hidden_until_due=("placement",)), "private": Rules(hidden=("speed",))}.items():
        texts, _ = gradescope(gradebook(uploads, rules))
        by_rules[name] = {student: json.loads(text or "") for student, text in texts.items()}
    ada, grace = by_rules["seen"].values()
    assert [(entry["value"], entry["order"]) for entry in ada["leaderboard"]] == [(0.81, "asc")]
    assert "leaderboard" not in grace  # its results are wrong
    assert "leaderboard" not in by_rules["private"]["ada/results.json"]
    assert [test["visibility"] for test in ada["tests"]] == ["after_due_date", "visible"]
    assert ada["tests"][1]["tags"] == [EXERCISE, "speed"]
    assert "execution_time" not in ada  # equal gradings have equal files


def test_a_check_hidden_until_due_also_delays_those_that_it_holds_back() -> None:
    statuses = {"placement": Status.PASSED, "parity": Status.FAILED, "syncs": Status.HELD_BACK, "speed": Status.NOT_RUN}
    upload = Upload("ada", report(*(verdict(name, status) for name, status in statuses.items())))
    texts, _ = gradescope(gradebook([upload], Rules(hidden_until_due=("parity",))))
    tests = json.loads(texts["ada/results.json"] or "")["tests"]
    visibility = {test["tags"][1]: test["visibility"] for test in tests}
    assert visibility == {"placement": "visible", **dict.fromkeys(("parity", "syncs", "speed"), "after_due_date")}
    loads = verdict("loads", Status.FAILED, of=0)
    broken = Upload("ada", report(loads, verdict("parity", Status.NOT_RUN), verdict("syncs", Status.NOT_RUN)))
    texts, _ = gradescope(gradebook([broken], Rules(hidden_until_due=("parity",))))
    tests = json.loads(texts["ada/results.json"] or "")["tests"]
    assert [test["visibility"] for test in tests] == ["visible", "after_due_date", "visible"]


@given(TEXTS)
@FEW
def test_junit_is_valid_xml_for_any_text(text: str) -> None:
    book_of_one = report(verdict(f"x{text}", Status.FAILED, sentence=text, got=text, expected=text))
    files = [Upload(f"a{text}", book_of_one), Upload("b", None, refusal=text)]
    root = ET.fromstring(junit(gradebook(files)).encode())
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("2", "1", "1")
    assert legal(text) in (root.findtext(".//failure") or "")


def test_junit_has_a_case_for_each_check() -> None:
    crashed = report_of(EXERCISE, Outcome.CRASHED, (verdict("runs", Status.FAILED, of=0), verdict("x", Status.NOT_RUN)))
    held = report(verdict("parity", Status.FAILED), verdict("syncs", Status.HELD_BACK), verdict("speed"))
    lees = (Upload("lee", points(1, 2)), Upload("lee", points(1, 1, exercise=OTHER), OTHER))
    root = ET.fromstring(junit(gradebook([Upload("kim", crashed), *lees])))
    kim, lee = root
    assert [(case.get("classname"), case.get("name"), [each.tag for each in case]) for case in kim] == [
        (EXERCISE, "runs", ["error"]),
        (EXERCISE, "x", ["skipped"]),
        (OTHER, "handed in", ["skipped"]),
    ]
    assert (kim.get("tests"), kim.get("errors"), kim.get("skipped")) == ("3", "1", "2")
    assert (lee.get("tests"), lee.get("failures"), lee.get("errors")) == ("3", "1", "0")
    assert (root.get("tests"), root.get("failures"), root.get("errors"), root.get("skipped")) == ("6", "1", "1", "2")
    (ada,) = ET.fromstring(junit(gradebook([Upload("ada", held)])))
    assert [[each.tag for each in case] for case in ada] == [["failure"], ["skipped"], []]


def test_canvas_uses_platform_numbers_or_the_columns_of_a_roster(tmp_path: Path) -> None:
    text, notices = canvas(book())
    assert text.splitlines() == [
        f"Student,ID,SIS User ID,SIS Login ID,Section,{EXERCISE},{OTHER}",
        "    Points Possible,,,,,7,2",
        "Ada Lovelace,501,,,,2.7,2",
        "Grace Hopper,502,,,,,0",
    ]
    assert notices == []
    _, notices = canvas(gradebook([Upload("kim", points(1, 1))]))
    assert ["kim" in notice.title for notice in notices] == [True]
    roster = tmp_path / "roster.csv"
    roster.write_text(
        "\ufeffStudent,ID,SIS User ID,SIS Login ID,Integration ID,Section,hidden_syncs (77),Essay (78),Final Score\n"
        "    Points Possible,,,,,,7.00,10,(read only)\n"
        '"Hopper, Grace",9,g1,grace@example.org,,A,-1.5,3,\n'
        '"Lovelace, Ada",8,a1,other,,A,,3,\n'
        '"Student, Test",7,,x,,A,,,\n'
    )
    text, notices = canvas(book(), roster)
    assert rows(text) == [
        ["Student", "ID", "SIS User ID", "SIS Login ID", "Integration ID", "Section", "hidden_syncs (77)", OTHER],
        ["    Points Possible", "", "", "", "", "", "7.00", "2"],
        ["Hopper, Grace", "9", "g1", "grace@example.org", "", "A", "-1.5", "0"],
        ["Lovelace, Ada", "8", "a1", "other", "", "A", "2.7", "2"],
    ]
    assert [OTHER in notice.title for notice in notices] == [True, False]
    two_names = "LastName,FirstName,ID,Section,hidden_syncs (77)\nPoints Possible,,,,7\nLovelace,Ada,8,A,\n"
    roster.write_text(two_names)
    assert rows(canvas(book(), roster)[0])[2] == ["Lovelace", "Ada", "8", "A", "2.7", "2"]
    roster.write_text("Name,Mark\nkim,1\n")
    with pytest.raises(UsageError, match=roster.name):
        canvas(book(), roster)


def test_canvas_keeps_excused_students(tmp_path: Path) -> None:
    roster = tmp_path / "roster.csv"
    roster.write_text(f"Student,ID,Section,{EXERCISE} (77),{OTHER} (78)\nAda Lovelace,501,A,EX,1\n")
    text, notices = canvas(of_layout(book(), "canvas"), roster)
    assert rows(text)[2] == ["Ada Lovelace", "501", "A", "EX", "2"]
    assert any(f"ada {EXERCISE}" in notice.title for notice in notices)


@pytest.mark.parametrize(
    ("assignments", "header"),
    [
        ("5.3 Title (70),Title (77)", "5.3 Title (70)"),
        ("Title (77),5.3 Title (70)", "5.3 Title (70)"),
        ("Title (70),Title (77)", "5.3 Title"),
        ("5.4 Title (70),Title (77)", "Title (77)"),
    ],
)
def test_only_a_clear_assignment_of_canvas_gets_marks(tmp_path: Path, assignments: str, header: str) -> None:
    made = of_layout(gradebook([Upload("ada", points(1, 1))], students=[ADA]), "canvas")
    exercise = replace(made.exercises[0], label="5.3", title="Title")
    roster = tmp_path / "roster.csv"
    roster.write_text(f"Student,ID,Section,{assignments}\nAda Lovelace,501,A,,\n")
    text, notices = canvas(replace(made, exercises=(exercise,)), roster)
    assert rows(text)[0][3:] == [header]
    assert any("unclear" in notice.title for notice in notices) == (header == "5.3 Title")


def test_two_exercises_of_one_title_get_no_common_assignment(tmp_path: Path) -> None:
    made = of_layout(book(), "canvas")
    same = replace(made, exercises=tuple(replace(exercise, title="Warm-up") for exercise in made.exercises))
    roster = tmp_path / "roster.csv"
    roster.write_text("Student,ID,Section,Warm-up (7)\nAda Lovelace,501,A,\n")
    text, notices = canvas(same, roster)
    assert "(7)" not in text
    assert any(EXERCISE in notice.title and OTHER in notice.title for notice in notices)


def test_comments_in_moodles_worksheet_stay(tmp_path: Path) -> None:
    made = of_layout(book(), "moodle")
    header = "Identifier,Full name,Grade,Feedback comments\n"
    worksheet = tmp_path / "worksheet.csv"
    worksheet.write_text(f"{header}Participant 501,Ada Lovelace,,Well explained!\n")
    first = rows(moodle(made, worksheet)[0])[1][3]
    assert first.startswith(f"Well explained!<br>{EXERCISE}: 2.7 of 7")
    worksheet.write_text(csv_text([header.strip().split(","), ["Participant 501", "Ada Lovelace", "4.7", first]]))
    assert rows(moodle(made, worksheet)[0])[1][3] == first


def test_canvas_gets_no_numbers_of_anonymous_marking() -> None:
    made = gradebook([Upload("anon_x1Yz", points(1, 1))], students=[Student("anon_x1Yz")])
    text, notices = canvas(of_layout(made, "canvas"))
    assert "anon_x1Yz" not in text
    assert any("anon_x1Yz" in notice.title for notice in notices)


def test_odd_rosters_and_chosen_names_give_nobody_anothers_mark(tmp_path: Path) -> None:
    roster = tmp_path / "roster.csv"
    roster.write_text(
        'Student;ID;Section;hidden_syncs (77);"Essay: a, b, c, d, e, f, g (78)"\n'
        "    Points Possible;;;7;10\n"
        "Points Possible;007;A;1;\n"
        "Ada Lovelace;00501;A;;\n"
    )
    book_of_one = gradebook([Upload("00501", points(1, 1))], students=[Student("00501", "Ada Lovelace", "", "00501")])
    text, notices = canvas(book_of_one, roster)
    assert rows(text, ";")[1:] == [["    Points Possible", "", "", "7"], ["Ada Lovelace", "00501", "A", "1"]]
    assert "1 student" in notices[-1].title
    # In `folders`, students choose the name in their zips.
    made = gradebook(
        [Upload("mal", points(1, 2)), Upload("Kim Roe", points(2, 2))], students=[Student("mal", "Kim Roe")]
    )
    roster.write_text(f"Student,ID,Section,{EXERCISE} (77)\nKim Roe,501,A,\n")
    text, notices = canvas(made, roster)
    assert rows(text)[2:] == [["Kim Roe", "501", "A", "2"]]
    assert any("mal" in notice.title for notice in notices)
    roster.write_text("Student,ID,Section,hidden_syncs (77)\n    Points Possible,,,10\nAda Lovelace,501,A,\n")
    _, notices = canvas(book(), roster)
    assert any(repr(EXERCISE) in notice.title for notice in notices)


def test_moodle_gets_final_totals(tmp_path: Path) -> None:
    made = of_layout(book(), "moodle")
    text, notices = moodle(made)
    late = "Late (by the platform, counted as one day): 10 percent is taken off"
    ada = f"{EXERCISE}: 2.7 of 7 points. {late}; {OTHER}: 2 of 2 points"
    grace = f"{EXERCISE}: no mark yet; {OTHER}: not submitted"
    assert rows(text)[1:] == [
        ["Participant 501", "Ada Lovelace", "ada@example.org", "4.7", "9", "-", ada],
        ["Participant 502", "Grace Hopper", "grace@example.org", "", "9", "-", grace],
    ]
    assert len(notices) == 1
    worksheet = tmp_path / "worksheet.csv"
    header = "Identifier,Full name,Email address,Status,Grade,Maximum Grade,Last modified (grade),Feedback comments\n"
    worksheet.write_text(
        f"\ufeff{header}"
        "Participant 501,Ada Lovelace,ada@example.org,Submitted,,9.00,-,\n"
        "Participant 502,Grace Hopper,grace@example.org,Submitted,4.00,9.00,-,old\n"
        "Participant 503,=Nobody,n@example.org,No submission,-,9.00,-,\n"
    )
    text, _ = moodle(made, worksheet)
    table = rows(text)
    assert table[0] == header.strip().split(",")
    assert [row[4] for row in table[1:]] == ["4.7", "4.00", "-"]
    assert table[3][1] == "'=Nobody"
    worksheet.write_text(header + "Participant 501,Ada,,Submitted,,100.00,-,\n")
    with pytest.raises(UsageError, match=r"100\.00"):
        moodle(made, worksheet)


def test_moodle_gets_no_totals_of_different_maxima(tmp_path: Path) -> None:
    files = [
        Upload("ada", points(4, 4), EXERCISE),
        Upload("ada", points(0, 2), OTHER),
        Upload("grace", points(0, 4), EXERCISE),
        Upload("grace", points(2, 2), OTHER),
    ]
    worksheet = tmp_path / "worksheet.csv"
    worksheet.write_text("Identifier,Grade,Maximum Grade\nParticipant 501,,4.00\nParticipant 502,,4.00\n")
    made = of_layout(gradebook(files, Rules(drop_lowest=1), [ADA, GRACE]), "moodle")
    for roster in (None, worksheet):
        with pytest.raises(UsageError, match="2 to 4"):
            moodle(made, roster)
    scaled = of_layout(gradebook(files, Rules(drop_lowest=1, scale=4), [ADA, GRACE]), "moodle")
    assert [row[1] for row in rows(moodle(scaled, worksheet)[0])[1:]] == ["4", "4"]


def test_a_platform_never_gets_numbers_of_another(tmp_path: Path) -> None:
    ada = Student("12005", "Ada Lovelace", "ada@x.org", "12005")
    made = gradebook([Upload("12005", points(4, 4))], students=[ada])
    of_gradescope = of_layout(made, "gradescope")
    roster = tmp_path / "canvas.csv"
    header = f"Student,ID,SIS User ID,SIS Login ID,Section,{EXERCISE} (7)\n"
    roster.write_text(f'{header}"Roe, Bob",12005,999,bob,A,\n"Lovelace, Ada",12006,12005,ada,A,\n')
    assert rows(canvas(of_gradescope, roster)[0])[2:] == [["Lovelace, Ada", "12006", "12005", "ada", "A", "4"]]
    worksheet = tmp_path / "worksheet.csv"
    worksheet.write_text("Identifier,Full name,Grade\nParticipant 12005,Bob Roe,\n")
    assert rows(moodle(made, worksheet)[0])[1:] == [["Participant 12005", "Bob Roe", ""]]
    # Bob's university number is the Canvas number of Ada, who is not in the file.
    roster.write_text(f'{header}"Roe, Bob",999,12005,bob,A,\n')
    assert len(rows(canvas(made, roster)[0])) == 2
    for text, notices in (canvas(of_gradescope), moodle(made)):
        assert "12005" not in text
        assert any("12005" in notice.title for notice in notices)


def test_an_id_with_another_name_is_refused_with_a_notice(tmp_path: Path) -> None:
    ada = Student("501", "Ada Lovelace", "", "501")
    made = of_layout(gradebook([Upload("501", points(4, 4))], students=[ada]), "gradescope")
    roster = tmp_path / "canvas.csv"
    header = f"Student,ID,SIS User ID,SIS Login ID,Section,{EXERCISE} (7)\n"
    roster.write_text(f'{header}"Roe, Bob",12005,501,bob,A,\n')
    text, notices = canvas(made, roster)
    assert len(rows(text)) == 2
    assert any("Roe, Bob" in notice.title and "501 (Ada Lovelace)" in notice.title for notice in notices)
    for name in ("LOVELACE, A.", "lovelaceada", "Ada König", ""):
        roster.write_text(f'{header}"{name}",12005,501,ada,A,\n')
        assert rows(canvas(made, roster)[0])[2][-1] == "4"


@given(st.lists(TEXTS | st.sampled_from(["kim", "con", "a.", "..", "a/b", "a b"]), unique_by=str.casefold, max_size=6))
@example(["", "!"])
@FEW
def test_every_student_gets_a_unique_folder_name(ids: list[str]) -> None:
    ids += [folder_name(f"{id}!") for id in ids]
    names = {id: folder_name(id) for id in ids}
    assert len({name.casefold() for name in names.values()}) == len({id.casefold() for id in names})
    for name in names.values():
        assert set(name) <= set(string.ascii_letters + string.digits + "_.@ +-")
        assert name not in ("", ".", "..")
        assert not name.startswith((".", "-"))
        assert len(name) <= 80

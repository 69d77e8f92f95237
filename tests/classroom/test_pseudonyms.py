"""Pseudonyms: no output for other people has a name, an id or an address of a student."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.gradebook.build import make_gradebook
from gpututor.classroom.history import HistoryEntry, HistoryEvent, add_entry
from gpututor.classroom.pseudonyms import UNKNOWN, Pseudonyms
from gpututor.classroom.roster import read_roster
from gpututor.classroom.rules import Rules
from gpututor.classroom.submissions import Student, Unmatched
from gpututor.cli.main import main
from gpututor.errors import UsageError
from gpututor.grading.report import RunSummary, Status
from tests.support.classes import graded_class
from tests.support.gradebooks import EXERCISE, OTHER, report, verdict
from tests.support.shipped_course import COURSE

SOURCE = "\n".join(f"value.a{place}(total.b{place} + 1).c{place}(other)" for place in range(60))
REAL = ("lovelace", "hopper", "example.org", "70501", "70502", "al12345", "alice", "grace", "quine")


@pytest.fixture
def folder(tmp_path: Path) -> ClassFolder:
    """Ada and Grace submitted nearly the same text, with their names in files, output and reasons."""
    folder = ClassFolder(tmp_path / "class")
    failed = verdict("parity", Status.FAILED, got="'Ada Lovelace' in line 3", line=1)
    failed = replace(failed, expected="Hopper, Grace", why="quine is undefined.", advice="Define quine.")
    run = RunSummary(
        "one GPU", "cuda:0, virtual T4", True, output="by ada lovelace, AL12345\n", traceback="File 70501.py"
    )
    speed = verdict("speed", measured="0.81 × the baseline's time: 1 ms against 2 ms")
    fast = replace(
        report(verdict("parity"), speed), runs=(replace(run, output="hopper@example.org", times="modelled"),)
    )
    odd = report(verdict("parity"), suspicions=("Line 2 opens /home/quine/x.",), exercise=OTHER)
    files = [
        ("70501", EXERCISE, "# (c) Ada Lovelace\n" + SOURCE, replace(report(failed), runs=(run,))),
        ("70502", EXERCISE, "# (c) Ada Lovelace, changed\n" + SOURCE, fast),
        ("70501", OTHER, "a", odd),
        ("70502", OTHER, "b", None),
    ]
    class_ = graded_class(folder, files, COURSE.folder)
    students = (
        Student("70501", "Lovelace Ada", "ada@example.org", "70501", "lovelaceada_70501_1_copy.py"),
        Student("70502", "Grace Hopper", "hopper@example.org", "70502", "hoppergrace_70502_1_copy.py"),
        Student("quine"),
    )
    submissions = [
        replace(each, source=f"lovelaceada_{each.student}_{each.exercise}.py") for each in class_.submissions
    ]
    submissions[-1] = replace(submissions[-1], refusal="It is a link to /home/quine/x.")
    unmatched = (
        Unmatched("quine/alice.py", "It is the same as quine/alice.py, which counts.", ("quine",)),
        Unmatched("hopper.zip", "It is in no student's folder."),
        Unmatched("lovelaceada.txt", f"It is the same as {submissions[0].source}, which counts.", ("70501",)),
    )
    changed = replace(class_, layout="canvas", students=students, submissions=tuple(submissions), unmatched=unmatched)
    folder.write_class(changed)
    why = "Ada Lovelace and 70502 worked together"
    add_entry(folder, HistoryEntry(HistoryEvent.MARKED, "70502", OTHER, "prof", why, "2026-01-02T00:00:00+00:00", 1.0))
    folder.roster_file.write_text(
        "id,name,email,section,extension,pseudonym,seat\n"
        "al12345,Ada Lovelace,ada@example.org,Monday,48,Blue Whale,1\n"
        "70502,Grace Hopper,hopper@example.org,Monday,,,2\n"
        "70503,Alice Noone,alice@example.org,Friday,,,3\n"
    )
    folder.rules_file.write_text(
        f"[[extension]]\nstudent = 'quine'\ndue = 2026-01-01T00:00:00Z\nexercise = '{OTHER}'\n"
    )
    return folder


def outputs(folder: ClassFolder, capsys: pytest.CaptureFixture[str]) -> Iterator[tuple[str, str]]:
    """Run every verb that takes --pseudonyms; yield the name and text of each output."""
    out = str(folder.folder)
    csv, pairs, page = (folder.folder / name for name in ("review.csv", "pairs.csv", "board.html"))
    words = (
        ["report", out, "--pseudonyms"],
        ["report", out, "--pseudonyms", "--json"],
        ["report", out, "--pseudonyms", "--all"],
        ["review", out, "--pseudonyms", "--csv", str(csv), "--csv-pairs", str(pairs)],
        ["review", out, "--pseudonyms", "--json"],
        ["leaderboard", out, "--pseudonyms"],
        ["leaderboard", out, "--html", str(page)],
        ["log", out, "--pseudonyms"],
        ["feedback", out, "--pseudonyms", "--format", "html"],
    )
    for each in words:
        assert main(["classroom", *each]) == 0, each
        captured = capsys.readouterr()
        yield " ".join(each[:1] + each[2:]), (captured.out + captured.err).replace(str(folder.folder), "")
    for path in (csv, pairs, page, *folder.pseudonymous.rglob("*")):
        yield path.name, "" if path.is_dir() else path.read_text()


def test_no_output_has_a_name_of_a_student(folder: ClassFolder, capsys: pytest.CaptureFixture[str]) -> None:
    texts = list(outputs(folder, capsys))
    written = {name for name, _ in texts}
    assert {"index.html", "marks.csv", "checks.csv", "junit.xml", "Blue Whale.md", "Blue Whale.html"} <= written
    for name, text in texts:
        for real in REAL:
            assert real not in f"{name}\n{text}".casefold(), (name, real)
    everything = "\n".join(text for _, text in texts)
    assert "Blue Whale" in everything
    assert re.search(r"100%  .*Blue Whale", everything)
    assert not (folder.pseudonymous / "report" / "gradescope").exists()


def test_made_up_pseudonyms_are_stable_and_need_the_salt(folder: ClassFolder) -> None:
    ids = [marks.student.id for marks in make_gradebook(folder, Rules(), with_names=False).students]
    assert ids == [marks.student.id for marks in make_gradebook(folder, Rules(), with_names=False).students]
    assert len(set(ids)) == 4
    assert folder.salt_file.stat().st_mode & 0o077 == 0
    folder.salt_file.unlink()
    others = [marks.student.id for marks in make_gradebook(folder, Rules(), with_names=False).students]
    assert set(ids) & set(others) == {"Blue Whale"}


def test_marks_are_the_same_with_pseudonyms(folder: ClassFolder) -> None:
    real, without = (make_gradebook(folder, Rules(), with_names=names) for names in (True, False))
    assert real.pseudonyms is not None
    for marks in real.students:
        other = without.student(real.pseudonyms.of(marks.student.id))
        assert (other.points, other.of, other.open, other.section) == (
            marks.points,
            marks.of,
            marks.open,
            marks.section,
        )
        assert [mark.status for mark in other.marks] == [mark.status for mark in marks.marks]
    assert without.by_hand[0][2].points == 1.0


def test_files_for_platforms_keep_the_ids_and_say_so(
    folder: ClassFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "canvas.csv", str(folder.folder)
    assert (
        main(["classroom", "report", out, "--pseudonyms", "--canvas", str(path), "--csv", str(tmp_path / "x.csv")]) == 0
    )
    assert f"{path} has the students' real ids" in capsys.readouterr().err
    assert "70501" in path.read_text()
    assert "70501" not in (tmp_path / "x.csv").read_text()
    assert main(["classroom", "feedback", out, "--pseudonyms", "--canvas", str(tmp_path / "x.zip")]) == 2
    assert not (tmp_path / "x.zip").exists()


def test_a_student_may_be_named_by_the_real_name(folder: ClassFolder, capsys: pytest.CaptureFixture[str]) -> None:
    for words in ("70501", "ada@example.org", "Ada Lovelace", "Blue Whale"):
        assert main(["classroom", "log", str(folder.folder), words, "--pseudonyms", "--json"]) == 0
        entries = json.loads(capsys.readouterr().out)["entries"]
        assert {entry["student"] for entry in entries} == {"Blue Whale"}


def test_whole_names_are_replaced_in_texts() -> None:
    students = [Student("kim", "Kim Roe"), Student("x", "Ed"), Student("12"), Student("70501")]
    names = Pseudonyms(lambda: bytes(32), students, {"kim": "A", "x": "B", "12": "C", "70501": "D"})
    assert names.text("KIM, kimono, Kim Roe's x 12 70501 kim_1.py 170501") == "A, kimono, A's x 12 D A_1.py 170501"
    assert (names.of("x"), names.of("nobody")) == ("B", UNKNOWN)
    assert names.text("Roe, Kim and Roe Lee") == "A and Roe Lee"
    of_canvas = Pseudonyms(lambda: bytes(32), [Student("7", "van Roe, Kim")], {"7": "A"})
    assert of_canvas.text("Kim van Roe; van Roe, Kim") == "A; A"


def test_names_are_replaced_in_any_case_and_form_of_unicode() -> None:
    decomposed = unicodedata.normalize("NFD", "José Díaz")
    students = [Student("1", "Anna Strauß"), Student("2", "İbrahim Yılmaz"), Student(decomposed)]
    names = Pseudonyms(lambda: bytes(32), students, {"1": "A", "2": "B", decomposed: "C"})
    assert names.text("by Anna Strauß, İbrahim Yılmaz, José Díaz!") == "by A, B, C!"
    assert names.text(f"ANNA STRAUSS and {decomposed}") == "A and C"
    assert names.words_without_names((decomposed.upper(), "strauss", "other")) == ("other",)


def test_words_with_a_part_of_a_name_are_left_out() -> None:
    names = Pseudonyms(lambda: bytes(32), [Student("kim7", "Kim van Roe", "kr@example.org")], {})
    words = ("never mind", "by kim", "van roe", "roe_value", "romance")
    assert names.words_without_names(words) == ("never mind", "romance")


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ("kim,Whale\nlee,whale\n", "line 3, column 'alias': 'whale' is in line 2, too"),
        ("kim,Lee\nlee,\n", "line 2, column 'alias': 'Lee' is the id, name or address of a student"),
    ],
)
def test_a_rosters_pseudonyms_are_unique_and_no_names(tmp_path: Path, rows: str, problem: str) -> None:
    path = tmp_path / "roster.csv"
    path.write_text(f"id,alias\n{rows}")
    with pytest.raises(UsageError) as raised:
        read_roster(path)
    assert raised.value.title.startswith(f"{path}, {problem}")


def test_a_gradebook_with_names_needs_no_salt(folder: ClassFolder) -> None:
    make_gradebook(folder, Rules())
    assert not folder.salt_file.exists()

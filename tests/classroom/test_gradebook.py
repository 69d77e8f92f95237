"""The gradebook from the journal, its table in the terminal, and `classroom report`."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from gpututor.classroom.feedback import student_view
from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.gradebook.build import make_gradebook
from gpututor.classroom.gradebook.exports import moodle
from gpututor.classroom.gradebook.model import Gradebook, MarkStatus
from gpututor.classroom.gradebook.terminal import lines_of
from gpututor.classroom.jobs import JobFailure, write_failures
from gpututor.classroom.review import ReviewReason, review_of
from gpututor.classroom.rules import ExerciseRules, Rules, rules_for
from gpututor.classroom.submissions import Student, Unmatched
from gpututor.cli.main import main
from gpututor.errors import UsageError
from gpututor.grading.journal import write_entry
from gpututor.grading.report import Report, RunSummary, Status
from tests.support.classes import class_with_options, key_at
from tests.support.gradebooks import EXERCISE, OTHER, Upload, gradebook, points, report, verdict
from tests.support.shipped_course import COURSE


@pytest.fixture
def folder(tmp_path: Path) -> ClassFolder:
    """Kim and Lee submitted the same text, which failed one check; Lee's other file is not graded yet."""
    folder = ClassFolder(tmp_path / "class")
    class_, _ = class_with_options(folder, [("lee", EXERCISE, "a"), ("kim", EXERCISE, "a"), ("lee", OTHER, "b")])
    folder.write_class(replace(class_, unmatched=(Unmatched("notes.txt", "It is not a Python file."),)))
    write_entry(folder.journal, key_at(folder, 0), points(2, 3))
    return folder


def standings(book: Gradebook) -> list[tuple[str, str, MarkStatus, float | None]]:
    return [
        (mark.student, mark.exercise, mark.status, mark.mark) for student in book.students for mark in student.marks
    ]


def test_the_gradebook_has_all_marks_and_one_warning_of_broken_failures(folder: ClassFolder) -> None:
    book = make_gradebook(folder, Rules())
    assert [(each.exercise, each.label, each.title) for each in book.exercises] == [
        (OTHER, "5.1", "One big copy"),
        (EXERCISE, "5.3", "Hidden syncs"),
    ]
    assert standings(book) == [
        ("kim", OTHER, MarkStatus.NOT_HANDED_IN, 0),
        ("kim", EXERCISE, MarkStatus.FINAL, 2),
        ("lee", OTHER, MarkStatus.NOT_GRADED, None),
        ("lee", EXERCISE, MarkStatus.FINAL, 2),
    ]
    assert book.notices == ()
    attempt = book.student("kim").mark_of(EXERCISE).counted
    assert attempt is not None
    assert attempt.key == key_at(folder, 0)
    write_failures(folder, [JobFailure(key_at(folder, 2), 3, "The worker ended.")])
    lee = make_gradebook(folder, Rules()).student("lee").mark_of(OTHER)
    assert "The worker ended." in lee.reason
    for text in ("{", "{}", '[{"key": 1}]', "[" * 100_000):
        folder.failures_file.write_text(text)
        book = make_gradebook(folder, Rules())
        assert [notice.title.startswith(str(folder.failures_file)) for notice in book.notices] == [True]
        assert book.student("kim").mark_of(EXERCISE).mark is not None


def test_a_broken_journal_entry_is_one_warning(folder: ClassFolder, capsys: pytest.CaptureFixture[str]) -> None:
    write_entry(folder.journal, key_at(folder, 2), points(1, 1, exercise=OTHER))
    broken = key_at(folder, 0).file_in(folder.journal)
    broken.write_text("{")
    book = make_gradebook(folder, Rules())
    assert [notice.title.startswith(str(broken)) for notice in book.notices] == [True]
    assert standings(book)[1::2] == [(name, EXERCISE, MarkStatus.NOT_GRADED, None) for name in ("kim", "lee")]
    assert book.student("lee").mark_of(OTHER).mark == 1
    assert main(["classroom", "report", str(folder.folder)]) == 0
    assert str(broken) in capsys.readouterr().err


def test_an_ungraded_exercise_has_the_points_of_the_course(
    folder: ClassFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(folder.journal)
    book = make_gradebook(folder, Rules())
    assert [(each.label, each.known_of) for each in book.exercises] == [("5.1", None), ("5.3", 5)]
    own = Rules(exercises={EXERCISE: ExerciseRules(points={"syncs": 6})}, assigned=(EXERCISE,))
    assert make_gradebook(folder, own).student("kim").known_of == 10
    assert main(["classroom", "report", str(folder.folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = [line.split() for line in lines]
    assert [row[-1] for row in rows if row[:1] in (["5.1"], ["5.3"])] == ["?", "5"]
    assert any(line.startswith("?: ") for line in lines)
    folder.write_class(replace(folder.read_class(), course="/gone"))
    assert [each.known_of for each in make_gradebook(folder, Rules()).students] == [None, None]
    assert make_gradebook(folder, Rules(scale=10)).students[0].known_of == 10


def test_a_misplaced_file_is_named_where_a_submission_is_missing(folder: ClassFolder) -> None:
    class_ = folder.read_class()
    named = Unmatched("kim/homework.py", "No exercise is called that.", ("kim",))
    copy = Unmatched("lee/copy.py", "It is the same as lee/x.py, which counts.", ("lee",), EXERCISE)
    folder.write_class(replace(class_, unmatched=(*class_.unmatched, named, copy)))
    book = make_gradebook(folder, Rules())
    mark = book.student("kim").mark_of(OTHER)
    (note,) = student_view(mark, book.exercise(OTHER), Rules()).notes
    comment = moodle.feedback_comment(book, book.student("kim"))
    table = "\n".join(lines_of(book, 100))
    assert mark.mark == 0
    assert all("kim/homework.py" in words for words in (mark.reason, note, comment, table))
    folder.write_class(replace(folder.read_class(), source="/the class"))
    book = make_gradebook(folder, Rules())
    items = [item for item in review_of(folder, book).items if not item.files]
    options = ["'/the class'", "--out", str(folder.folder), "--resume"]
    assert items[0].command == " ".join(["gpututor classroom grade", *options])
    assert [(item.kind, item.students, bool(item.command)) for item in items] == [
        (ReviewReason.NO_EXERCISE, ("kim",), True),
        (ReviewReason.UNMATCHED, (), True),
        (ReviewReason.UNMATCHED, ("lee",), False),
    ]


def test_a_summary_counts_attempts_that_count_with_names_and_ratios() -> None:
    files = [Upload("a", points(0, 4)), Upload("b", points(4, 4)), Upload("b", points(1, 4)), Upload("c", points(2, 4))]
    files += [Upload("d", report(verdict("parity"), verdict("speed", Status.INCONCLUSIVE))), Upload("e", None)]
    summary = gradebook(files, students=[Student("f")]).exercises[0]
    assert (summary.handed_in, summary.without_mark) == (5, 2)
    assert [(outcome.value, number) for outcome, number in summary.outcomes] == [
        ("failed", 2),
        ("inconclusive", 1),
        ("passed", 1),
    ]
    assert summary.distribution == (1, 0, 0, 0, 1, 0, 0, 0, 0, 1)
    first = summary.checks[0]
    assert (first.check, first.passed, first.failed, first.open) == ("syncs", 1, 2, 0)
    assert summary.checks[-1].check in ("placement", "speed")
    files = [Upload("24", points(1, 2)), Upload("25", points(2, 2)), Upload("kim", points(2, 2))]
    lines = list(lines_of(gradebook(files, students=[Student("24", "Kim Roe"), Student("kim", "kim")]), 80))
    assert [line.split("  ")[0] for line in lines[-3:]] == ["24 (Kim Roe)", "25", "kim"]
    files = [
        Upload("kim", timed("1.50 × the baseline: 3 ms against 2 ms, modelled", Status.TOO_SLOW)),
        Upload("lee", timed("0.5 × the baseline (0.4 to 0.6 in the middle half of 9 pairs): …", times="measured")),
        Upload("ada", timed("")),
    ]
    timings = gradebook(files).exercises[0].timings
    assert [(each.student, each.ratio, each.status, each.is_measured) for each in timings] == [
        ("lee", 0.5, Status.PASSED, True),
        ("kim", 1.5, Status.TOO_SLOW, False),
    ]


def timed(words: str, status: Status = Status.PASSED, times: str = "modelled") -> Report:
    run = RunSummary("one GPU", "cuda:0, virtual T4", True, times=times)  # type: ignore[arg-type]
    return replace(report(verdict("speed", status, measured=words), verdict("memory", measured="3 MiB")), runs=(run,))


@pytest.mark.parametrize("width", [30, 60, 80, 140])
def test_the_table_fits_the_width(width: int) -> None:
    exercises = [f"lesson/exercise_{number:02}" for number in range(30)]
    files = [
        Upload(name, points(1, 2, exercise=key), key) for key in exercises for name in ("kim", "名前" * 30, "\x1b[31m")
    ]
    lines = list(lines_of(gradebook([*files, Upload("lee", None, exercises[0], refusal="It is a link.")]), width))
    assert all(len(line) + sum(letter in "名前" for letter in line) <= width for line in lines)
    assert "\x1b" not in "".join(lines)
    assert "more: a wider terminal" in re.sub(r"\s+", " ", " ".join(lines))
    assert any(line.startswith("名前") and "…" in line for line in lines)


def test_missing_marks_have_words_and_exercises_without_the_course_their_keys(folder: ClassFolder) -> None:
    lines = list(lines_of(make_gradebook(folder, Rules(drop=(EXERCISE,))), 80))
    assert [line.split() for line in lines if line.startswith(("kim", "lee"))] == [
        ["kim", "0", "?", "–", "(2)"],
        ["lee", "open", "(0", "so", "far)", "?", "waiting", "(2)"],
    ]
    folder.write_class(replace(folder.read_class(), course="/gone"))
    book = make_gradebook(folder, Rules())
    assert [(each.label, each.title) for each in book.exercises] == [("", EXERCISE), ("", OTHER)]
    assert ["/gone" in notice.title for notice in book.notices] == [True]
    assert make_gradebook(folder, Rules(), COURSE.folder).exercises[0].label == "5.1"


def test_report_prints_a_table_or_json_and_writes_exports(
    folder: ClassFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["classroom", "report", str(folder.folder)]) == 0
    assert "5.3 Hidden syncs" in capsys.readouterr().out
    target = tmp_path / "marks.csv"
    assert main(["classroom", "report", str(folder.folder), "--csv", str(target)]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"Written: {target}\n"
    assert target.read_text().startswith("student,name,")
    assert main(["classroom", "report", str(folder.folder), "--all", "--json"]) == 0
    captured = capsys.readouterr()
    assert [each["student"] for each in json.loads(captured.out)["students"]] == ["kim", "lee"]
    names = {each.name for each in folder.exports.iterdir()}
    assert {"marks.csv", "checks.csv", "junit.xml", "index.html", "gradescope"} <= names
    assert "<h1>GPU acceleration with PyTorch</h1>" in (folder.exports / "index.html").read_text()
    assert not {"canvas.csv", "moodle.csv"} & names
    results = folder.exports / "gradescope" / "kim" / "results.json"
    assert json.loads(results.read_text())["score"] == 2
    key_at(folder, 0).file_in(folder.journal).unlink()
    (results.parent.parent / "moe").mkdir()
    (results.parent.parent / "moe" / "results.json").write_text("{}")  # of a former student
    assert main(["classroom", "report", str(folder.folder), "--all"]) == 0
    assert not results.exists()
    assert "moe" in capsys.readouterr().err


def test_parts_of_killed_reports_are_removed(folder: ClassFolder) -> None:
    killed = 2**22 + 1  # above the largest id of a process
    places = ("report/.marks.csv", "report/gradescope/kim/.results.json", "feedback/.moe.md", "page/.my.html")
    stale = [folder.folder / f"{place}.{killed}-x.part" for place in places]
    new, foreign = folder.exports / f".new.csv.{os.getpid()}-x.part", folder.folder / "page" / ".download.part"
    for path in (*stale, new, foreign):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("half")
    html = str(folder.folder / "page" / "my.html")
    assert main(["classroom", "report", str(folder.folder), "--all", "--html", html]) == 0
    assert main(["classroom", "feedback", str(folder.folder)]) == 0
    assert [path for path in (*stale, new, foreign) if path.exists()] == [new, foreign]


def test_report_errors_name_the_option_or_file(
    folder: ClassFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(folder.folder)
    for words, refused in (
        ([str(tmp_path / "nothing")], str(tmp_path / "nothing")),
        ([out, "--rules", str(tmp_path / "none.toml")], str(tmp_path / "none.toml")),
        ([out, "--canvas-roster", "x"], "--canvas-roster"),
        ([out, "--csv", str(tmp_path)], str(tmp_path)),
        ([out, "--gradescope", str(folder.class_file)], "class.json"),
        ([out, "--csv", str(folder.class_file)], "must not replace"),
        ([out, "--csv", str(folder.journal / "marks.csv")], "must not replace"),
    ):
        assert main(["classroom", "report", *words]) == 2
        assert refused in capsys.readouterr().err
    folder.rules_file.write_text('hidden = ["memory", "recomputed"]')  # a check of another exercise
    assert make_gradebook(folder, rules_for(folder)).notices == ()
    folder.rules_file.write_text(f"\n[exercises.'{EXERCISE}']\nhidden = ['sincs']\n")
    with pytest.raises(UsageError) as raised:
        make_gradebook(folder, rules_for(folder))
    assert raised.value.title.startswith(f"{folder.rules_file}, line 3: exercises.'{EXERCISE}'.hidden: ")
    assert "'syncs'" in raised.value.advice

"""Feedback: nothing about hidden checks and suspicions, and Markdown that no text can break."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from markdown_it import MarkdownIt

from gpututor.classroom.feedback import LONGEST_LINE, MORE_CHECKS, NO_MARK_YET, SubmittedLines, feedback, student_view
from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.gradebook.exports.gradescope import gradescope
from gpututor.classroom.gradebook.model import Gradebook
from gpututor.classroom.rules import ExerciseRules, Extension, LatePolicy, Rules
from gpututor.classroom.submissions import Student
from gpututor.cli.main import main
from gpututor.grading.report import Outcome, Report, RunSummary, Status, Verdict
from tests.support.classes import graded_class, report_of
from tests.support.gradebooks import EXERCISE, Upload, gradebook, report, verdict
from tests.support.report_strategies import TEXTS
from tests.support.shipped_course import COURSE

HIDING = Rules(exercises=MappingProxyType({EXERCISE: ExerciseRules(hidden=("secret",), points={"secret": 0})}))
NOWHERE = SubmittedLines(ClassFolder(Path("nowhere")))
SEEN = (verdict("loads", of=0), verdict("parity", Status.FAILED, expected="3", got="4", line=2, why="w", advice="a"))
RUN = RunSummary("one GPU", "cuda:0", True, output="PRINTED", traceback="TRACEBACK")


def kims(graded: Report | None, rules: Rules = HIDING, hints: tuple[str, ...] = (), **more: object) -> str:
    """Return the feedback for Kim."""
    return of_book(gradebook([Upload("kim", graded, **more)], rules), hints)  # type: ignore[arg-type]


def of_book(book: Gradebook, hints: tuple[str, ...] = (), lines: SubmittedLines = NOWHERE) -> str:
    return feedback(book, book.students[0], lines, {EXERCISE: hints})


def with_secret(status: Status, *seen: Verdict, **more: object) -> Report:
    failed: dict[str, Any] = (
        {} if status in (Status.PASSED, Status.NOT_RUN) else {"expected": "E!", "got": "G!", "why": "W!", "line": 9}
    )
    secret = verdict("secret", status, measured="0.5 × the baseline", **failed)
    made = report(*(seen or SEEN), replace(secret, sentence="SENTENCE"), **more)  # type: ignore[arg-type]
    return replace(made, runs=(RUN,))


def test_a_student_sees_which_lines_of_the_notebook_are_left_out() -> None:
    lines = tuple(f"code cell {number}, line 1: !ls" for number in range(1, 8))
    text = kims(report(*SEEN), Rules(), left_out=lines).replace("\\", "")
    assert all(line in text for line in lines[:5])
    assert "; …" in text
    assert "notebook" not in kims(report(*SEEN), Rules())


def test_feedback_says_nothing_of_hidden_checks_and_what_they_stopped() -> None:
    texts = {kims(with_secret(status)) for status in (Status.PASSED, Status.FAILED, Status.TOO_SLOW, Status.NOT_RUN)}
    assert len(texts) == 1
    text = texts.pop()
    assert MORE_CHECKS in text
    assert "✗ Failed: 1 of 2 " in text
    for word in ("secret", "SENTENCE", "E!", "G!", "W!", "0.5", "PRINTED", "TRACEBACK", "ine 9"):
        assert word not in text
    right = [
        kims(with_secret(status, verdict("loads"), verdict("parity"))) for status in (Status.PASSED, Status.FAILED)
    ]
    assert right[0] == right[1]
    assert "✓ All " in right[0]
    waiting = verdict("parity", Status.NOT_RUN)
    for first in (verdict("loads"), verdict("structure", Status.FAILED)):
        text = kims(with_secret(Status.FAILED, first, waiting))
        assert "not run" not in text
        assert "parity" not in text
    seen = kims(with_secret(Status.NOT_RUN, verdict("loads", Status.FAILED, of=0), waiting))
    assert "○ not run: parity" in seen
    held = (verdict("loads"), verdict("placement", Status.HELD_BACK))
    assert "placement" not in kims(with_secret(Status.FAILED, *held))
    shown = kims(report(*held, verdict("parity", Status.FAILED)), Rules())
    assert "○ held back: placement" in shown
    hiding = Rules(exercises=MappingProxyType({EXERCISE: ExerciseRules(hidden=("runs",))}))
    broke = (verdict("runs", Status.FAILED, of=0), verdict("parity", Status.NOT_RUN))
    texts = {kims(report_of(EXERCISE, each, broke), hiding) for each in (Outcome.CRASHED, Outcome.TIMEOUT)}
    assert len(texts) == 1
    shown = kims(report_of(EXERCISE, Outcome.TIMEOUT, broke), Rules())
    assert "✗ Took too long: " in shown


def test_an_open_mark_gives_no_details_and_gradescope_no_more_than_feedback() -> None:
    passing = (verdict("loads"), verdict("parity"))
    suspicious = report(*passing, verdict("secret"), suspicions=("line 3 reaches for gpututor",))
    texts = {
        kims(suspicious),
        *(kims(with_secret(status, *passing)) for status in (Status.INCONCLUSIVE, Status.NEEDS_REVIEW)),
    }
    assert len(texts) == 1
    text = texts.pop()
    assert NO_MARK_YET in text
    assert "gpututor" not in text
    open_check = verdict("parity", Status.NEEDS_REVIEW, got="G!", why="W!", measured="M!")
    reviewed = replace(report(open_check, verdict("syncs", Status.FAILED, got="G!")), runs=(RUN,))
    review = kims(replace(reviewed, outcome=Outcome.NEEDS_REVIEW), Rules())
    assert "○ Under review" in review
    broken = kims(report_of(EXERCISE, Outcome.INTERNAL_ERROR, reason="KeyError in the judge"), Rules())
    assert NO_MARK_YET in broken
    secret = (
        "needs review",
        "parity",
        "syncs is right",
        "G!",
        "W!",
        "M!",
        "KeyError",
        "internal",
        "TRACEBACK",
        "PRINTED",
    )
    for word in secret:
        assert word not in review + broken
    book = gradebook(
        [Upload("kim", with_secret(Status.FAILED, verdict("loads"), verdict("parity", Status.NOT_RUN)))], HIDING
    )
    results = gradescope(book)[0]["kim/results.json"]
    assert results is not None
    assert results.count('"visibility": "hidden"') == 2
    mark = book.students[0].marks[0]
    assert [check.check for check in student_view(mark, book.exercises[0], HIDING).checks] == ["loads"]


def test_feedback_has_findings_output_hints_and_penalties() -> None:
    late = Rules(late=LatePolicy(10))
    failed = report(*SEEN, verdict("syncs", measured="0.5 × the baseline"))
    text = kims(replace(failed, runs=(RUN,)), late, ("## First\n\nThink.\n```\nopen",), late=True)
    assert "# Feedback for `kim`" in text
    assert "**Total: 0.9 of 2 points**" in text
    assert "### ✗ failed: parity is right · 0 of 1\n\n```text\nExpected  3\nGot       4\nLine 2\n```\n" in text
    assert "Why: w\n\nWhat to try: a" in text
    assert "(0.5 × the baseline)" in text
    assert "10 percent" in text
    assert "0.1 of the 1 points" in text
    assert "```text\nTRACEBACK\n```" in text
    assert "```text\nPRINTED\n```" in text
    assert "> **Hint 1: First**\n>\n> Think.\n> ```\n> open\n" in text
    assert "Hint" not in kims(report(verdict("parity")), Rules(), ("## First\n",))
    assert "It is too large." in kims(None, Rules(), refusal="It is too large.")


def test_feedback_has_no_folders_of_the_machine_that_graded() -> None:
    path = "/home/prof/graded/.venv/lib/python3.11/site-packages/torch/x.py"
    failed = report(
        verdict("files", Status.FAILED, expected="out/a.pt and https://a.example/b/c", got=f"{path}: 3 // 2")
    )
    run = replace(RUN, output=f"{path}:7: UserWarning", traceback=f'File "{path}", line 7')
    text = kims(replace(failed, runs=(run,)), Rules())
    assert "/home" not in text
    assert "prof" not in text
    for words in ("…/x.py: 3 // 2", "…/x.py:7: UserWarning", 'File "…/x.py"', "out/a.pt and https://a.example/b/c"):
        assert words in text
    refused = kims(None, Rules(), refusal=f"{path} is a link.")
    assert "prof" not in refused


def test_times_are_in_the_time_zone_of_the_due_date() -> None:
    due = datetime(2026, 3, 1, 23, 59, tzinfo=timezone(timedelta(hours=1)))
    more_time = (Extension("kim", hours=24),)
    text = kims(report(*SEEN), Rules(due=due, extensions=more_time), submitted_at="2026-03-03T10:10:00+00:00")
    assert re.findall(r"\S+ \S+\+01:00", text) == ["2026-03-03 11:10:00+01:00", "2026-03-02 23:59:00+01:00"]
    assert ", 2026-03-03 10:10:00+00:00\n" in kims(report(*SEEN), Rules(), submitted_at="2026-03-03T10:10:00+00:00")
    assert "due" not in kims(report(*SEEN), Rules(due=due))
    long = replace(report(verdict("parity")), runs=(replace(RUN, output="x\n" * 100_000, traceback=""),))
    text = kims(long, Rules())
    assert len(text) < 1000


def shape(text: str) -> list[str]:
    """Return the kinds of blocks and spans, as parsed with automatic links."""
    tokens = MarkdownIt("gfm-like").parse(text)
    spans = [child for token in tokens for child in token.children or () if child.type != "text_special"]
    kinds = [child.type for child in spans if child.type != "text"]
    return [token.type for token in tokens] + kinds


def hostile(text: str) -> str:
    failed = verdict(
        "parity", Status.FAILED, sentence=text, expected=f"{text}x", got=f"{text}x", why=f"{text}x", advice=f"{text}x"
    )
    run = replace(RUN, output=f"{text}x", traceback=f"{text}x", scenario=text)
    graded = replace(report(failed, verdict("syncs", sentence=text, measured=f"{text}x")), runs=(run,))
    kim = Student(f"kim{text}", f"¿{text}")
    return of_book(gradebook([Upload(kim.id, graded)], Rules(), [kim]))


@given(TEXTS)
@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@example("```\n# heading\n<script>alert(1)</script>")
@example("~~~~~\n- list\n> quote | cell")
@example("`````` ![x](http://x) www.evil.example [a](b) <b>")
@example("\u202e\x1b[31m\r\n\n# x\n\n    code")
@example("|a|b|\n|-|-|")
@example("a@b.example https://x.example &lt; \\`_*")
def test_no_text_becomes_markup(text: str) -> None:
    made = hostile(text)
    made.encode()
    assert shape(made) == shape(hostile("x"))
    assert "\u202e" not in made


def test_feedback_writes_a_file_for_each_student(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = ClassFolder(tmp_path / "class")
    source = "import torch\n    x = '```'" + "y" * 300
    files = [(student, EXERCISE, source, report(*SEEN)) for student in ("kim", "../lee")]
    graded_class(folder, files, COURSE.folder)
    assert main(["classroom", "feedback", str(folder.folder), "--hints", "1"]) == 0
    assert str(folder.feedback) in capsys.readouterr().out
    paths = sorted(folder.feedback.iterdir())
    assert [path.name[:4] for path in paths] == ["kim.", "lee-"]
    text = paths[0].read_text()
    assert "Line 2    x = '```'yyy" in text
    assert "y" * LONGEST_LINE not in text
    assert "**Hint 1: " in text
    paths[0].unlink()
    assert main(["classroom", "feedback", str(folder.folder), "--student", "kim", "--hints", "0"]) == 0
    assert "Hint" not in paths[0].read_text()
    assert main(["classroom", "feedback", str(folder.folder), "--student", "kin"]) == 2
    assert "'kim'" in capsys.readouterr().err
    (folder.feedback / "moe.md").write_text("of a former student")
    assert main(["classroom", "feedback", str(folder.folder)]) == 0
    assert "moe" in capsys.readouterr().err
    assert (folder.feedback / "moe.md").exists()

"""Faults of an author's files: each is the author's, at its file and line, with the frames of the author alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpututor.errors import GradingError
from gpututor.grading.report import Outcome
from gpututor.judge.responses import WorkerProtocolError
from tests.support.gradings import Grade
from tests.support.tiny_course import RIGHT

DRAW = "def draw(seed, case):\n    return {'number': seed}\n\n\n"
CHECKS = "import sys\nfrom gpututor.checks import parity, transfers, value\n\n\n"
VALUE = "checks = [value(expected)]\n"
FAULTS = {
    "build raises": (
        "given.py",
        f"{DRAW}def build(drawn, device):\n    return made(drawn)\n\n\ndef made(drawn):\n    return drawn['x']\n",
        10,
        "KeyError: 'x'",
    ),
    "build ends": ("given.py", f"import sys\n{DRAW}def build(drawn, device):\n    sys.exit(3)\n", 7, "SystemExit: 3"),
    "build gives a list": ("given.py", f"{DRAW}def build(drawn, device):\n    return [1]\n", 5, "must return a dict"),
    "build of one": ("given.py", f"{DRAW}def build(drawn):\n    return drawn\n", 5, "build(drawn, device)"),
    "given only in the worker": (
        "given.py",
        f"{DRAW}import sys\nif 'gpututor.worker.service' in sys.modules:\n    sys.exit()\n",
        7,
        "SystemExit",
    ),
    "draw of one": ("given.py", "def draw(seed):\n    return {}\n", 1, "draw(seed, case)"),
    "draw raises": ("given.py", "def draw(seed, case):\n    return {1 / 0: 1}\n", 2, "ZeroDivisionError"),
    "draw gives an object": ("given.py", "def draw(seed, case):\n    return {'x': [object()]}\n", 1, "object at 'x.0'"),
    "draw gives a list": ("given.py", "def draw(seed, case):\n    return [1]\n", 1, "must return a dict"),
    "checks end": ("checks.py", f"{CHECKS}sys.exit()\n", 5, "SystemExit"),
    "a check ends": (
        "checks.py",
        f"{CHECKS}def expected(drawn, machine):\n    sys.exit()\n\n\n{VALUE}",
        6,
        "SystemExit",
    ),
    "a check raises": (
        "checks.py",
        f"{CHECKS}def expected(drawn, machine):\n    return drawn['x']\n\n\n{VALUE}",
        6,
        "check 'value': KeyError: 'x'",
    ),
    "a check of one": ("checks.py", f"{CHECKS}def expected(drawn):\n    return 1\n\n\n{VALUE}", 5, "(drawn, machine)"),
    "an amount": (
        "checks.py",
        f"{CHECKS}checks = [transfers(to_device=lambda drawn, machine: drawn['x'])]\n",
        5,
        "amount failed: KeyError: 'x'",
    ),
    "a reference of another name": (
        "checks.py",
        f"{CHECKS}def reference(x):\n    return x\n\n\nchecks = [parity(reference)]\n",
        5,
        "reference(x) cannot be called as (number)",
    ),
    "a machine": (
        "checks.py",
        f"{CHECKS}checks = [value(lambda drawn, machine: 1, on=lambda machine: machine.x)]\n",
        5,
        "AttributeError",
    ),
    "a word refuses": ("checks.py", f"{CHECKS}checks = [parity(print, times=-1)]\n", 5, "parity: times=-1"),
}


@pytest.mark.parametrize(("file", "text", "line", "words"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_told_at_its_line(
    grade: Grade, exercise_folder: Path, file: str, text: str, line: int, words: str
) -> None:
    (exercise_folder / file).write_text(text)

    report = grade(RIGHT)

    first = report.reason.partition("\n")[0]
    assert report.outcome is Outcome.INTERNAL_ERROR
    assert first.startswith(f"{exercise_folder / file}:{line}: "), report.reason
    assert words in first
    assert "gpututor/" not in report.reason.replace(str(exercise_folder), "")


def test_the_authors_own_frames_are_told(grade: Grade, exercise_folder: Path) -> None:
    (exercise_folder / "given.py").write_text(FAULTS["build raises"][1])

    assert grade(RIGHT).reason.splitlines()[-2:] == ["Called from:", "given.py:6 in build"]


def test_a_fault_that_only_the_submission_has_is_its_own(grade: Grade, exercise_folder: Path) -> None:
    (exercise_folder / "given.py").write_text(
        f"import math\n{DRAW}def build(drawn, device):\n    return math.e and drawn\n"
    )

    report = grade(f"import math\ndel math.e\n{RIGHT}")

    assert report.outcome is Outcome.NEEDS_REVIEW


def test_a_build_that_ends_the_worker_is_the_authors(grade: Grade, exercise_folder: Path) -> None:
    given = exercise_folder / "given.py"
    given.write_text(f"import os\n{DRAW}def build(drawn, device):\n    os._exit(3)\n")

    report = grade(RIGHT)

    assert report.outcome is Outcome.INTERNAL_ERROR
    assert report.reason.startswith(f"{given}: ")


def test_checks_that_end_the_judge_are_named(grade: Grade, exercise_folder: Path) -> None:
    (exercise_folder / "checks.py").write_text("import os\n\nos._exit(3)\n")

    with pytest.raises(GradingError) as broke:
        grade(RIGHT)

    assert str(exercise_folder) in broke.value.title
    assert "checks.py" in broke.value.advice


def test_a_worker_that_broke_by_itself_says_why_in_its_first_line() -> None:
    broke = WorkerProtocolError("Traceback (most recent call last):\n  somewhere\nValueError: no such thing")
    assert broke.title.endswith("ValueError: no such thing")
    assert "somewhere" in broke.advice

"""Races and changed arguments, from a file to its verdict."""

from __future__ import annotations

from pathlib import Path

from gpututor.grading.report import Outcome, Report, Verdict
from tests.support.gradings import Grade

GIVEN = """
import torch

def draw(seed, case):
    return {"x": torch.rand(64, 64, generator=torch.Generator().manual_seed(seed + case)) + 1}

def build(drawn, device):
    return {"number": drawn["x"].to(device)}
"""
CHECKS = """
from gpututor.checks import parity, races

checks = [parity(lambda x: 2 * x), races()]
"""
HONEST = "def twice(number):\n    return 2 * number\n"
RACING = """
import torch

def twice(number):
    side = torch.cuda.Stream()
    result = torch.zeros_like(number)
    with torch.cuda.stream(side):
        result.add_(number)
    return result + number
"""
WRITING = "def twice(number):\n    result = 2 * number\n    number.zero_()\n    return result\n"


def exercise(folder: Path) -> None:
    (folder / "given.py").write_text(GIVEN)
    (folder / "checks.py").write_text(CHECKS)


def failed(report: Report) -> Verdict:
    """The first failure, of which there must be one."""
    assert report.outcome is Outcome.FAILED, report
    verdict = report.first_failure
    assert verdict is not None
    return verdict


def test_an_honest_solution_passes(grade: Grade, exercise_folder: Path) -> None:
    exercise(exercise_folder)

    report = grade(HONEST)

    assert report.outcome is Outcome.PASSED, report
    assert {"parity", "races"} <= {verdict.check for verdict in report.verdicts}
    assert "unmodified" not in {verdict.check for verdict in report.verdicts}


def test_a_race_is_named_with_both_lines_though_the_values_are_right(grade: Grade, exercise_folder: Path) -> None:
    exercise(exercise_folder)

    verdict = failed(grade(RACING))

    assert verdict.check == "races"
    assert ":8 " in verdict.got
    assert ":6 " in verdict.got
    assert verdict.line == 8


def test_a_changed_argument_is_found_in_an_exercise_that_does_not_ask(grade: Grade, exercise_folder: Path) -> None:
    exercise(exercise_folder)

    verdict = failed(grade(WRITING))

    assert (verdict.check, verdict.line) == ("unmodified", 3)
    assert "number was changed" in verdict.got

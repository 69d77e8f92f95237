"""Every exercise is graded on its idea: starters fail, solutions pass, known mistakes fail for their own reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpututor.course.exercise import Exercise
from gpututor.grading.report import Outcome, Report, Status
from tests.exercises.conftest import Grade
from tests.exercises.courses import EXERCISES, WITH_PARITY, WRONG_SOLUTIONS, named_check

CONSTANTS: tuple[object, ...] = (None, True, 0, 1.0, "cuda:0", [], {}, ())
SPOILED = """

import numpy

def spoil(part):
    if isinstance(part, torch.nn.Module):
        for tensor in part.state_dict().values():
            tensor.copy_(change(tensor))
        return part
    if isinstance(part, dict):
        return {key: spoil(inner) for key, inner in part.items()}
    if isinstance(part, numpy.ndarray):
        return change(torch.tensor(part)).numpy()
    return change(part)

def change(tensor):
    return CHANGED

def then_spoil(function):
    return lambda **arguments: spoil(function(**arguments))

ENTRY = then_spoil(ENTRY)
"""
"""Appended to a solution: the same result in the same place, with other values."""


def in_words(report: Report) -> str:
    """What a reader of a failing test wants to see."""
    lines = [f"{report.outcome} {report.reason}"]
    lines += [
        f"{verdict.scenario}: {verdict.check}: {verdict.status}; {verdict.expected}; {verdict.got}"
        for verdict in report.verdicts
    ]
    return "\n".join([*lines, *(run.traceback for run in report.runs)])


def first_failures(report: Report) -> dict[str, str]:
    """The first check that failed, for each scenario in which one did."""
    failed: dict[str, str] = {}
    for verdict in report.verdicts:
        if verdict.status is Status.FAILED:
            failed.setdefault(verdict.scenario, verdict.check)
    return failed


@pytest.mark.parametrize("exercise", EXERCISES)
def test_the_starter_is_graded_and_does_not_pass(exercise: Exercise, grade: Grade) -> None:
    report = grade(exercise, exercise.starter, 1)
    assert report.outcome in (Outcome.FAILED, Outcome.ERROR), in_words(report)


@pytest.mark.parametrize("seed", [1, pytest.param(2**32 - 1, marks=pytest.mark.long)])
@pytest.mark.parametrize("exercise", EXERCISES)
def test_the_solution_passes_in_every_scenario(exercise: Exercise, seed: int, grade: Grade) -> None:
    report = grade(exercise, exercise.solution, seed)
    assert report.outcome is Outcome.PASSED, in_words(report)
    assert [run.scenario for run in report.runs] == [scenario.name for scenario in exercise.scenarios]
    assert {run.placement for run in report.runs} == {"traced"}


@pytest.mark.parametrize(("exercise", "path"), WRONG_SOLUTIONS)
def test_a_wrong_solution_fails_first_on_the_check_that_it_names_and_is_told_all_about_it(
    exercise: Exercise, path: Path, grade: Grade
) -> None:
    report = grade(exercise, path.read_text(encoding="utf-8"), 1)
    assert set(first_failures(report).values()) == {named_check(path)}, in_words(report)
    assert report.suspicions == ()
    verdict = report.first_failure
    assert verdict is not None
    assert all((verdict.sentence, verdict.expected, verdict.got, verdict.why, verdict.advice)), verdict
    assert verdict.line is not None, verdict


@pytest.mark.parametrize("exercise", EXERCISES)
def test_no_constant_passes(exercise: Exercise, grade: Grade) -> None:
    returns = "\n".join(f"    if CALLS[0] % {len(CONSTANTS)} == {i}: return {c!r}" for i, c in enumerate(CONSTANTS))
    one_each_call = f"CALLS = [-1]\ndef {exercise.entry}(*args, **kwargs):\n    CALLS[0] += 1\n{returns}\n"
    report = grade(exercise, one_each_call, 1)
    assert report.outcome is Outcome.FAILED, in_words(report)


@pytest.mark.long
@pytest.mark.parametrize(
    "changed", ["torch.zeros_like(tensor)", "torch.ones_like(tensor)", "tensor.flip([*range(tensor.dim())])"]
)
@pytest.mark.parametrize("exercise", WITH_PARITY)
def test_the_right_shape_in_the_right_place_with_other_values_does_not_pass(
    exercise: Exercise, changed: str, grade: Grade
) -> None:
    spoiled = SPOILED.replace("CHANGED", changed).replace("ENTRY", exercise.entry)
    report = grade(exercise, exercise.solution.partition("\nif __name__")[0] + spoiled, 1)
    assert report.outcome is Outcome.FAILED, in_words(report)
    assert "parity" in {verdict.check for verdict in report.verdicts if verdict.status is Status.FAILED}

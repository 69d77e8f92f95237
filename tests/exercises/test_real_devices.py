"""On a machine with an accelerator, every exercise has the same outcomes there and on the virtual GPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from gpututor.course.model import Exercise
from gpututor.grading.client import GradingClient
from gpututor.grading.events import GradeRequest, GradingFinished
from gpututor.grading.report import Outcome, Report, Status
from tests.support.shipped_course import EXERCISES, RIGHT_SOLUTIONS, WRONG_SOLUTIONS

HERE = torch.accelerator.current_accelerator(check_available=True)
KIND = "none" if HERE is None else HERE.type
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(HERE is None, reason="needs a real accelerator, and this machine has none"),
]


@pytest.fixture(scope="module")
def client() -> Iterator[GradingClient]:
    client = GradingClient()
    yield client
    client.close()


def graded(client: GradingClient, exercise: Exercise, source: str, device: str) -> Report:
    request = GradeRequest(str(exercise.folder), source, f"{exercise.slug}.py", device, seed=1)
    last = list(client.grade(request))[-1]
    assert isinstance(last, GradingFinished)
    return last.report


def said(report: Report) -> tuple[Outcome, dict[str, set[str]]]:
    """Return the outcome and the checks of each scenario that did not pass, without times."""
    broken: dict[str, set[str]] = {}
    for verdict in report.verdicts:
        if verdict.status is not Status.PASSED:
            broken.setdefault(verdict.scenario, set()).add(verdict.check)
    return report.outcome, broken


def compare(client: GradingClient, exercise: Exercise, source: str) -> None:
    if KIND not in exercise.devices:
        # The course says that it means nothing there, and the judge has to say so too.
        assert graded(client, exercise, source, KIND).outcome is Outcome.NOT_GRADABLE_HERE
        return
    real, virtual = (graded(client, exercise, source, device) for device in (KIND, "virtual"))
    assert said(real) == said(virtual), f"{KIND}: {real}\nvirtual: {virtual}"
    assert any(not run.virtual for run in real.runs), "no scenario ran on the real device"


@pytest.mark.parametrize("exercise", EXERCISES)
def test_a_solution_is_judged_alike_on_the_real_and_on_the_virtual_device(
    exercise: Exercise, client: GradingClient
) -> None:
    compare(client, exercise, exercise.solution)


@pytest.mark.parametrize(("exercise", "path"), [*RIGHT_SOLUTIONS, *WRONG_SOLUTIONS])
def test_a_right_variant_or_wrong_solution_is_judged_alike_on_the_real_and_on_the_virtual_device(
    exercise: Exercise, path: Path, client: GradingClient
) -> None:
    compare(client, exercise, path.read_text(encoding="utf-8"))

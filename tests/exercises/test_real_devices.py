"""Every exercise on a machine with an accelerator: its outcomes are as on the virtual GPU."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

import pytest
import torch

from gpututor.course.model import Exercise
from gpututor.grading.client import GradingClient
from gpututor.grading.events import GradeRequest, GradingFinished
from gpututor.grading.report import Outcome, Report
from gpututor.judge.author_code import load_code
from gpututor.judge.verdicts import IMPLICIT_CHECKS
from tests.support.shipped_course import EXERCISES, RIGHT_SOLUTIONS, WRONG_SOLUTIONS

HERE = torch.accelerator.current_accelerator(check_available=True)
KIND = "none" if HERE is None else HERE.type
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(HERE is None, reason="needs a real accelerator, and this machine has none"),
]


OTHER_CHECKS = {
    "checkpointing/peak_of_the_process": "the worker resets a real GPU's meter before each call",
    "checkpointing/reset_after_reading": "the worker resets a real GPU's meter before each call",
    "events/not_waited_for": "a fast GPU has passed both events before their times are read",
    "when_small_is_slow/cold_cpu": "the CPU's products are seen with a virtual GPU only",
    "tensor_cores/bfloat16": "a real GPU with TF32 stands in for one without it",
    "tensor_cores/stays_narrow": "a real GPU with TF32 stands in for one without it",
    "tensor_cores/looks_at_the_largest": "a real GPU with TF32 stands in for one without it",
    "tensor_cores/trusts_the_switch": "a real GPU with TF32 stands in for one without it",
    "attention_that_fits/heads_joined": "another kernel of attention takes less memory",
    "freeze_a_model/still_training": "PyTorch's export raises an error on a real GPU",
    "reduce_overhead/writes_to_an_input": "a real graph reads the input that the last run wrote",
    "cuda_graphs/no_warm_up": "cuBLAS cannot begin during a capture",
}
"""Wrong solutions that fail other checks on real than on virtual devices, with the reason."""


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


def broken(report: Report, without: Collection[str] = ()) -> dict[str, set[str]]:
    """Return the checks of each scenario that failed."""
    failed: dict[str, set[str]] = {}
    for verdict in report.verdicts:
        if verdict.status.is_failure and verdict.check not in without:
            failed.setdefault(verdict.scenario, set()).add(verdict.check)
    return failed


def of_one_device(exercise: Exercise) -> set[str]:
    """Return the checks that compare times, or apply to some machines only.

    Times that differ on the modelled GPU may be the same on a fast one behind a slow host.
    """
    checks = (*load_code(exercise).checks, *IMPLICIT_CHECKS)
    return {check.name for check in checks if check.timed or callable(check.on)}


def grade_on_both(client: GradingClient, exercise: Exercise, source: str) -> tuple[Report, Report] | None:
    """Return the reports of the real and of the virtual device; None if the exercise means nothing on the real one."""
    if KIND not in exercise.devices:
        # The course says so, and the judge has to say so too.
        assert graded(client, exercise, source, KIND).outcome is Outcome.NOT_GRADABLE_HERE
        return None
    real, virtual = (graded(client, exercise, source, device) for device in (KIND, "virtual"))
    assert any(not run.virtual for run in real.runs), "no scenario ran on the real device"
    return real, virtual


@pytest.mark.parametrize("exercise", EXERCISES)
def test_a_solution_passes_on_the_real_and_on_the_virtual_device(exercise: Exercise, client: GradingClient) -> None:
    for report in grade_on_both(client, exercise, exercise.solution) or ():
        assert report.outcome is Outcome.PASSED, report
        assert not any("NVML" in run.output for run in report.runs), report.runs


@pytest.mark.parametrize(("exercise", "path"), RIGHT_SOLUTIONS)
def test_a_right_variant_passes_on_the_real_and_on_the_virtual_device(
    exercise: Exercise, path: Path, client: GradingClient
) -> None:
    for report in grade_on_both(client, exercise, path.read_text(encoding="utf-8")) or ():
        assert report.outcome is Outcome.PASSED, report


@pytest.mark.parametrize(("exercise", "path"), WRONG_SOLUTIONS)
def test_a_wrong_solution_fails_on_real_devices_unless_it_is_only_slow(
    exercise: Exercise, path: Path, client: GradingClient
) -> None:
    reports = grade_on_both(client, exercise, path.read_text(encoding="utf-8"))
    if reports is not None and f"{exercise.slug}/{path.stem}" not in OTHER_CHECKS:
        real, virtual = (broken(report, of_one_device(exercise)) for report in reports)
        assert real == virtual, f"{KIND}: {reports[0]}\nvirtual: {reports[1]}"

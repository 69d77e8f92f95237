"""What became of arguments, from the worker to the verdict: gradients and an optimizer's state, with no copy for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpututor.grading.report import Outcome
from tests.support.gradings import Grade

GIVEN = """\
import torch
from torch import nn


def draw(seed, case):
    chance = torch.Generator().manual_seed(seed * 10 + case)
    return {"weight": torch.randn(1, 3, generator=chance), "x": torch.randn(4, 3, generator=chance)}


def build(drawn, device):
    model = nn.Linear(3, 1, bias=False)
    model.load_state_dict({"weight": drawn["weight"]})
    model.to(device)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return {"model": model, "optimiser": optimiser, "x": drawn["x"].to(device)}
"""
CHECKS = """\
from gpututor.checks import after_call, syncs, transfers, unmodified


def left(weight, x):
    gradient = 2 * (x @ weight.T * x).mean(0, keepdim=True)
    return {
        "model.weight": weight - 0.1 * gradient,
        "model.weight.grad": gradient,
        "optimiser.state.0.momentum_buffer": gradient,
    }


checks = [unmodified(may_change=("model",)), after_call(left), transfers(to_device=0, to_host=0), syncs(at_most=0)]
"""
STEP = """\
def twice(model, optimiser, x):
    model(x).square().mean().backward()
    optimiser.step()
"""


@pytest.fixture(autouse=True)
def training(exercise_folder: Path) -> None:
    (exercise_folder / "given.py").write_text(GIVEN)
    (exercise_folder / "checks.py").write_text(CHECKS)
    (exercise_folder / "solution.py").write_text(STEP)


@pytest.mark.parametrize(
    ("submission", "failed"),
    [
        (STEP, set()),
        (f"{STEP}    optimiser.zero_grad()\n", {"after_call"}),
        (STEP.replace("    optimiser.step()\n", ""), {"after_call"}),
        (f"{STEP}    optimiser.state.clear()\n", {"after_call"}),
        (f"{STEP}    del model.weight\n    model.weight = None\n", {"after_call", "unmodified"}),
    ],
    ids=["a step", "gradients dropped", "no step", "no momentum", "no weight"],
)
def test_what_became_of_arguments_is_graded(grade: Grade, submission: str, failed: set[str]) -> None:
    report = grade(submission)
    wrong = {verdict.check for verdict in report.verdicts if verdict.status.is_failure}
    assert wrong - {"unmodified"} == failed - {"unmodified"}, report.reason
    assert report.outcome is (Outcome.FAILED if failed else Outcome.PASSED)


def test_arguments_too_large_to_be_brought_back_are_refused(grade: Grade, exercise_folder: Path) -> None:
    with (exercise_folder / "exercise.toml").open("a") as manifest:
        manifest.write("[limits]\nresult_mib = 1\n")
    huge = "    model.register_buffer('huge', x.new_zeros(1 << 20))\n"

    report = grade(f"{STEP}{huge}")

    assert (report.outcome, report.first_failure.check) == (Outcome.FAILED, "runs")  # type: ignore[union-attr]

"""After the call: parameters, gradients, buffers and an optimizer's state have the reference's values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from gpututor.checks import after_call
from gpututor.errors import CourseError
from gpututor.protocol.values import ValueRefused, state_in
from tests.support.check_runs import failure, observed, run_of

X = torch.linspace(0.5, 2.0, 6).reshape(2, 3)


def step(**changes: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the inputs, and the arguments after a step of SGD with momentum."""
    drawn = {"weight": torch.linspace(-1, 1, 3).reshape(1, 3), "x": X}
    model = nn.Linear(3, 1, bias=False)
    model.register_buffer("steps", torch.zeros((), dtype=torch.int64))
    model.weight.data = drawn["weight"].clone()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(drawn["x"]).square().mean().backward()
    optimiser.step()
    model.get_buffer("steps").add_(1)
    arguments = {"model": model, "optimiser": optimiser, "batches": [X], "rate": 0.1, "work": print}
    if "grad" in changes:
        model.weight.grad = changes["grad"]
    if "shift" in changes:
        model.weight.data += changes["shift"]
    return drawn, arguments


def reference(weight: torch.Tensor, x: torch.Tensor) -> dict[str, Any]:
    gradient = 2 * (x @ weight.T * x).mean(0, keepdim=True)
    return {
        "model.weight": weight - 0.1 * gradient,
        "model.weight.grad": gradient,
        "model.steps": torch.tensor(1),
        "optimiser": {"state": {0: {"momentum_buffer": gradient}}, "groups.0.lr": 0.1},
        "optimiser.state.1": None,
        "rate": 0.1,
    }


def run_after(**changes: Any) -> Any:
    drawn, arguments = step(**changes)
    run = run_of(None, drawn)
    return replace(run, calls=(replace(run.calls[0], state=observed(state_in(arguments))),))


def test_the_references_values_and_patterns_of_paths_pass() -> None:
    assert after_call(reference).find(run_after()) is None
    assert after_call(lambda weight, x: {"model.*.grad": None}).find(run_after(grad=None)) is None


@pytest.mark.parametrize(
    ("changes", "path", "words"),
    [
        ({"grad": None}, "model.weight.grad", "None"),
        ({"grad": torch.zeros(1, 3)}, "model.weight.grad", "relative error 1.0"),
        ({"shift": 0.01}, "model.weight", "relative error"),
    ],
)
def test_a_wrong_value_is_reported_with_its_path(changes: dict[str, Any], path: str, words: str) -> None:
    finding = failure(after_call(reference), run_after(**changes))
    assert finding.got.startswith(f"after the call, {path}: ")
    assert words in finding.got


@pytest.mark.parametrize(
    ("expected", "words"),
    [
        ({"model.wieght.grad": None}, "there is model.steps"),
        ({"modle.weight": None}, "no such argument"),
        ({"model.weight.grad": None}, "shape (1, 3)"),
        ({"model.*.grad": None}, "shape (1, 3)"),
        ({"models.*.grad": None}, "no such argument"),
        ({"optimiser.state.0": None, "rate": 0.2}, "0.1"),
        ({"model.steps": torch.tensor(2)}, "1, not 2"),
        ({"batches.0": torch.ones(2, 2)}, "shape (2, 3)"),
    ],
)
def test_missing_and_wrong_values_fail(expected: dict[str, Any], words: str) -> None:
    assert words in failure(after_call(lambda weight, x: expected), run_after()).got


def test_a_reference_without_paths_is_rejected() -> None:
    with pytest.raises(CourseError, match="gives no path"):
        after_call(lambda weight, x: {}).find(run_after())


def test_an_argument_that_contains_itself_is_rejected() -> None:
    ring: list[Any] = []
    ring.append(ring)
    with pytest.raises(ValueRefused):
        state_in({"ring": ring})

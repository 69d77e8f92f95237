"""Placement: devices of results and of gradients."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from gpututor.checks import placement
from gpututor.checks.model import Check
from gpututor.errors import CourseError
from tests.support.check_runs import GPU, NO_GPU, copies, failure, observed, run_of

X = torch.arange(6.0).reshape(2, 3)


def test_results_must_be_on_the_scenarios_device() -> None:
    assert placement().find(run_of(observed([X, {"y": X}], "cuda:0"))) is None
    finding = failure(placement(), run_of([observed(X, "cuda:0"), observed(X)]))
    assert finding.expected == "result[1] on cuda:0"
    assert "on cpu" in finding.got
    assert placement().find(run_of(observed(X), machine=NO_GPU)) is None
    assert placement().sentence(NO_GPU) == "Every output lives on cpu"
    assert failure(placement(), run_of(observed([1, 2]))).got == "a result without tensors"


def test_each_part_may_have_its_own_device() -> None:
    check = placement({"weights": "device", "log": "cpu"})
    right = {"weights": observed([X, X], "cuda:0"), "log": observed(X)}

    assert check.find(run_of(right)) is None
    assert "result['log']" in failure(check, run_of({**right, "log": observed(X, "cuda:0")})).got


def test_gradients_are_placed_too() -> None:
    weight = torch.ones(2, requires_grad=True)
    weight.sum().backward()
    arrived = observed(weight, "cuda:0")
    strayed = replace(arrived, grad=observed(weight.grad))

    assert placement().find(run_of(arrived)) is None
    assert "gradient" in failure(placement(), run_of(strayed)).expected


def test_the_line_is_that_of_the_copy_to_the_wrong_device() -> None:
    assert failure(placement(), run_of(observed(X), trace=copies(("cuda:0", "cpu", 24, 5)))).line == 5


@pytest.mark.parametrize("where", [{"a": "device"}, {"a": {"b": "device"}}, ["device"], [], {1: "device"}])
@pytest.mark.parametrize("result", [{"b": X}, {"a": [X, X]}, [X, X], {"²": X}, {"k" * 1000: X}])
def test_a_tensor_without_a_named_device_fails(where: Any, result: Any) -> None:
    finding = failure(placement(where), run_of(observed(result, "cpu")))

    assert "no tensor at result" in finding.expected or "on cuda:0" in finding.expected
    assert "cpu" in finding.got


@pytest.mark.parametrize(("on", "with_gpu", "without"), [("gpu", True, False), ("no gpu", False, True)])
def test_a_check_can_apply_to_some_machines_only(on: str, with_gpu: bool, without: bool) -> None:
    check: Check = placement(on=on)

    assert check.applies(GPU) is with_gpu
    assert check.applies(NO_GPU) is without
    assert placement(on=lambda machine: machine.gpus == 1).applies(GPU)
    with pytest.raises(CourseError, match="sometimes"):
        placement(on="sometimes").applies(GPU)

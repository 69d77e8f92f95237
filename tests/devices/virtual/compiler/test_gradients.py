"""Gradients of compiled code: those of eager code, whatever shares memory with whatever."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch._dynamo
from torch.nn import functional as F

from gpututor.devices.virtual import VirtualMachine

Compile = Callable[[Callable[..., Any]], Any]


@pytest.fixture(autouse=True)
def nothing_compiled() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def _twice(x: torch.Tensor) -> torch.Tensor:
    """Return a tensor that is no leaf."""
    return x * 2


def _write_to_a_view_of_an_input(compile: Compile, x: torch.Tensor, w: torch.Tensor) -> Any:
    twice = _twice(x)
    view, other = compile(lambda each: (each.t(), each + 1))(twice)
    view.mul_(3)
    return twice.sum() + (view * other.t()).sum()


def _write_to_a_view_of_a_result(compile: Compile, x: torch.Tensor, w: torch.Tensor) -> Any:
    def rows(each: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        twice = each * 2
        return twice, twice[0]

    twice, row = compile(rows)(x)
    row.mul_(3)
    return (twice * w).sum()


def _write_inside_to_an_input(compile: Compile, x: torch.Tensor, w: torch.Tensor) -> Any:
    twice = _twice(x)
    out = compile(lambda each: each.mul_(3).sin())(twice)
    return (out * w).sum() + twice.square().sum()


def _write_inside_to_a_view(compile: Compile, x: torch.Tensor, w: torch.Tensor) -> Any:
    def write(each: torch.Tensor, by: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        each.mul_(by)
        return each + 1, each[0]

    twice = _twice(x)
    out, row = compile(write)(twice[:, 1:], w[1:])
    row.mul_(5)
    return twice.sum() + out.sum()


def _write_to_an_input_without_gradient(compile: Compile, x: torch.Tensor, w: torch.Tensor) -> Any:
    total = torch.zeros(3, device=x.device)
    out = compile(lambda sum, each: sum.add_(each) * 1)(total, w)
    return out.sum() + 2 * total.sum() + x.sum()


def _write_to_inputs_that_overlap(compile: Compile, x: torch.Tensor, w: torch.Tensor) -> Any:
    def write(each: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        each.mul_(2)
        return other * 3

    row = _twice(x).view(-1)
    return compile(write)(row[:4], row[2:]).sum() + row.sum() + w.sum()


def _results_without_gradient(compile: Compile, x: torch.Tensor, w: torch.Tensor) -> Any:
    def mixed(each: torch.Tensor) -> tuple[torch.Tensor, ...]:
        twice = each * 2
        with torch.no_grad():
            view = each.view(-1)
        return twice, twice.detach(), each.detach(), view, each.view(-1)[:2]

    results = compile(mixed)(_twice(x))
    assert [result.requires_grad for result in results] == [True, False, False, True, True]
    return sum((result.sum() for result in results), w.sum())


def _no_gradient_comes_back(compile: Compile, x: torch.Tensor, w: torch.Tensor) -> Any:
    class Stop(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, each: torch.Tensor) -> torch.Tensor:
            return each * 1

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> None:
            return None

    stopped: Any = Stop.apply(compile(_twice)(x))  # type: ignore[no-untyped-call]
    return stopped.sum() + x.sum() + w.sum()


def _write_after_a_graph_break(compile: Compile, x: torch.Tensor, w: torch.Tensor) -> Any:
    def activate(each: torch.Tensor) -> torch.Tensor:
        out = each * 2 - 3
        torch._dynamo.graph_break()
        return F.relu(out, inplace=True) + each

    return (compile(activate)(x) * w).sum()


@pytest.mark.parametrize(
    "program",
    [
        _write_to_a_view_of_an_input,
        _write_to_a_view_of_a_result,
        _write_inside_to_an_input,
        _write_inside_to_a_view,
        _write_to_an_input_without_gradient,
        _write_to_inputs_that_overlap,
        _results_without_gradient,
        _no_gradient_comes_back,
        _write_after_a_graph_break,
    ],
    ids=lambda program: program.__name__.strip("_"),
)
def test_gradients_are_those_of_eager_code(program: Any, two_gpus: VirtualMachine) -> None:
    results = []
    for compile, device in ((lambda function: function, "cpu"), (torch.compile, "cuda")):
        x = torch.arange(6.0, device=device).view(2, 3).requires_grad_()
        w = torch.ones(3, device=device, requires_grad=True)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Eager kernels compute the gradients")
            loss = program(compile, x, w)
        loss.backward()
        results.append([None if value is None else value.detach().cpu() for value in (loss, x.grad, w.grad)])
    torch.testing.assert_close(results[1], results[0])


def test_gradients_by_eager_kernels_are_announced(two_gpus: VirtualMachine) -> None:
    x, w = torch.ones(2, 3, device="cuda", requires_grad=True), torch.ones(3, device="cuda")
    with pytest.warns(UserWarning, match="Eager kernels compute the gradients") as seen:
        _write_to_inputs_that_overlap(torch.compile, x, w)
    assert [warning.filename for warning in seen] == [__file__]


def test_a_write_to_a_leaf_is_autograds_error(two_gpus: VirtualMachine) -> None:
    x = torch.ones(3, device="cuda", requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        torch.compile(lambda each: each.mul_(2) + 1)(x)


def test_losses_that_broadcast_have_a_backward_graph(two_gpus: VirtualMachine) -> None:
    x = torch.ones(2, 3, device="cuda", requires_grad=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "aten::broadcast_tensors")
        torch.compile(F.mse_loss)(x, torch.zeros(2, 3, device="cuda")).backward()
    assert x.grad is not None
    assert torch.allclose(x.grad, x / 3)

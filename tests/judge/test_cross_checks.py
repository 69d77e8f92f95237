"""A worker's report is compared with what the judge computes from the inputs that it drew."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch

from gpututor.checks.model import Call, Run
from gpututor.hardware.scenario import Scenario
from gpututor.judge.cross_checks import changed_inputs, needed_bytes, unread_inputs
from gpututor.judge.devices import to_machine
from gpututor.protocol.encode import Encoder
from gpututor.protocol.messages import MachineSpec
from gpututor.protocol.values import TensorFact
from gpututor.trace.columns import Trace
from gpututor.trace.events import Kind

SPEC = MachineSpec(Scenario("one GPU", 1, ("cuda",), "T4"), "virtual", 0)
DRAWN = {"x": torch.arange(1.0, 257.0), "rows": torch.tensor([0, 2])}
SIZE = 1024


def run_with(trace: Trace, before: dict[str, str] | None = None, device: str = "cuda:0", **more: Any) -> Run:
    fact = TensorFact("Tensor", (256,), "float32", device, (1,), 0, 1, 1, False, True, False, "strided")
    digests = Encoder().digests(DRAWN) if before is None else before
    call = replace(Call(DRAWN, {"x": fact}, None, trace, before=digests), **more)
    return Run(to_machine(SPEC, []), (call,), "", "work")


def trace_of(**event: Any) -> Trace:
    trace = Trace()
    trace.add(**{"kind": Kind.KERNEL, "name": "aten::mul", "device": "cuda:0", **event})
    return trace


def square(x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    return x * x


def never() -> Run:
    raise AssertionError("the solution ran without need")


def test_only_an_input_that_the_solution_got_as_drawn_is_suspected() -> None:
    drawn = Encoder().digests(DRAWN)
    added, changed, other = {**drawn, "model.weight": "0" * 32}, {**drawn, "x": "0" * 32}, {**drawn, "x": "1" * 32}
    for before in (drawn, added):  # arguments that build adds are not compared
        assert list(changed_inputs(run_with(Trace(), before), never)) == []
    assert list(changed_inputs(run_with(Trace(), changed), lambda: run_with(Trace())))
    for built in (changed, other):
        assert list(changed_inputs(run_with(Trace(), changed), partial(run_with, Trace(), built))) == []


@pytest.mark.parametrize(
    ("trace", "is_suspected"),
    [
        (Trace(), True),
        (trace_of(size_bytes=SIZE // 2 - 1), True),
        (trace_of(size_bytes=SIZE), False),
        (trace_of(size_bytes=SIZE, device="cuda:1"), True),
        (trace_of(kind=Kind.TRANSFER, size_bytes=SIZE, source="cuda:0", target="cpu"), False),
        (trace_of(kind=Kind.ALLOCATE, size_bytes=SIZE), True),
    ],
)
def test_a_result_needs_work_that_reads_what_it_depends_on(trace: Trace, is_suspected: bool) -> None:
    assert bool(list(unread_inputs(run_with(trace), [square]))) is is_suspected


def test_inputs_that_the_host_has_need_no_work() -> None:
    assert list(unread_inputs(run_with(Trace(), device="cpu"), [square])) == []
    assert list(unread_inputs(run_with(Trace()), [])) == []

    def first(x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return x[:1]

    assert list(unread_inputs(run_with(trace_of(size_bytes=4)), [square, first])) == []


def test_only_elements_with_a_derivative_are_needed() -> None:
    def some(x: torch.Tensor, rows: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"rows": x[rows], "counts": rows.bincount()}

    def none(x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(x)

    def breaks(x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return x.add_(1)

    assert needed_bytes(square, DRAWN) == {"x": SIZE}
    assert needed_bytes(some, DRAWN) == {"x": 8}
    assert needed_bytes(lambda x, rows: torch.polar(x, x), DRAWN) == {"x": SIZE}
    assert needed_bytes(none, DRAWN) == {}
    assert needed_bytes(breaks, DRAWN) == {}

"""Results, memory and times that contradict the trace are told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from gpututor.checks.model import Call, MemoryUse, Run, Span
from gpututor.hardware.scenario import Scenario
from gpututor.judge.devices import to_machine
from gpututor.judge.suspicions import find_inconsistencies
from gpututor.protocol.encode import Encoder
from gpututor.protocol.messages import MachineSpec
from gpututor.protocol.values import ObservedTensor, TensorFact
from gpututor.trace.columns import Trace
from gpututor.trace.events import Kind

SPEC = MachineSpec(Scenario("one GPU", 1, ("cuda",), "T4"), "virtual", 0)
FACT = TensorFact("Tensor", (256,), "float32", "cuda:0", (1,), 0, 1, 1, False, True, False, "strided")
MEMORY = {"cuda:0": MemoryUse(2048, 3072, 3072)}


def suspicions_of(work: dict[str, Any] | None, result: torch.Tensor | None = None, **changed: Any) -> tuple[str, ...]:
    """Return the suspicions of a call that launches `work`, and takes memory for `result`."""
    trace = Trace()
    if work is not None:
        row = {"launched": 2000, "start": 3000, "end": 9000, "size_bytes": 1024}
        trace.add(Kind.KERNEL, **{"name": "aten::mm", "device": "cuda:0", **row, **work})
    trace.add(Kind.ALLOCATE, "allocate", device="cuda:0", size_bytes=1024, allocated=3072)
    output = ObservedTensor(FACT, torch.ones(256) if result is None else result, None)
    call = replace(Call({}, {}, output, trace, span=Span(1000, 5_000_000, 9_000_000), memory=MEMORY), **changed)
    return find_inconsistencies(Run(to_machine(SPEC, []), (call,), "", "work", ((call,),)), SPEC)


@pytest.mark.parametrize(
    ("work", "words"),
    [
        ({}, ""),
        ({"launched": 999}, "before the call"),
        ({"size_bytes": 10**8}, "a kernel was faster"),
        ({"end": 3001}, "a kernel was faster"),
        (None, "no kernel and no copy"),
        ({"size_bytes": 8}, "no kernel and no copy"),
        ({"name": ""}, "that no operator launched"),
        ({"name": "aten::matmul_for_nothing"}, "that no operator launched"),
    ],
)
def test_work_that_cannot_have_been_is_told(work: dict[str, Any] | None, words: str) -> None:
    suspicions = suspicions_of(work)
    assert len(suspicions) == bool(words)
    assert all(words in each for each in suspicions)


def test_memory_as_it_is_when_it_is_taken_needs_no_work() -> None:
    assert suspicions_of(None, torch.zeros(256)) == ()


def test_memory_that_is_left_out_is_told() -> None:
    assert suspicions_of({}, memory={})


def test_a_result_that_is_an_argument_with_other_values_is_told() -> None:
    given: dict[str, Any] = {"arguments": {"table": FACT}, "after": Encoder().digests({"table": torch.ones(256)})}
    assert suspicions_of({}, **given) == ()
    assert suspicions_of({}, torch.zeros(256), **given)


def test_a_result_next_to_the_arguments_needs_memory_of_its_own() -> None:
    other = TensorFact("Tensor", (600,), "float32", "cuda:0", (1,), 0, 2, 2, False, True, False, "strided")
    assert suspicions_of({}, arguments={"table": other})

"""Runs made by hand, for tests of checks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from gpututor.checks.model import Call, Check, Finding, Machine, Run
from gpututor.hardware.scenario import Scenario
from gpututor.protocol.decode import Decoder, facts_by_path
from gpututor.protocol.encode import Encoder
from gpututor.protocol.values import ObservedTensor
from gpututor.trace.columns import Trace
from gpututor.trace.events import Kind

GPU = Machine(Scenario("one GPU", 1, ("cuda",)), "cuda:0", True, "Tesla T4", 16 << 30)
NO_GPU = Machine(Scenario("no GPU", 0, ("cuda",)), "cpu", True, "", None)
SOURCE = "import torch\n\n\ndef work(x):\n    y = x.cuda()\n    return y\n"


def observed(value: object, device: str = "cpu") -> Any:
    """`value` as it would arrive, its tensors said to live on `device`."""
    packer = Encoder()
    tree = packer.pack(value)
    return moved(Decoder(tuple(packer.buffers)).unpack(tree), device)


def moved(tree: Any, device: str) -> Any:
    match tree:
        case ObservedTensor():
            grad = None if tree.grad is None else moved(tree.grad, device)
            return replace(tree, fact=replace(tree.fact, device=device), grad=grad)
        case list():
            return [moved(part, device) for part in tree]
        case tuple():
            return tuple(moved(part, device) for part in tree)
        case dict():
            return {key: moved(part, device) for key, part in tree.items()}
    return tree


def copies(*rows: tuple[str, str, int, int]) -> Trace:
    """A trace of copies: (source, target, bytes, line)."""
    trace = Trace()
    for source, target, size_bytes, line in rows:
        device = target if target != "cpu" else source
        trace.add(
            Kind.TRANSFER, "aten::_to_copy", device, source=source, target=target, size_bytes=size_bytes, line=line
        )
    return trace


def waits(*lines: int) -> Trace:
    trace = Trace()
    for line in lines:
        trace.add(Kind.SYNCHRONISE, "aten::item", "cuda:0", line=line)
    return trace


def run_of(
    output: Any,
    drawn: dict[str, Any] | None = None,
    *,
    trace: Trace | None = None,
    machine: Machine = GPU,
    source: str = SOURCE,
) -> Run:
    """A run with one call. `output` is packed as it is unless it is observed already."""
    drawn = drawn or {}
    arguments = facts_by_path(Encoder().facts({name: v for name, v in drawn.items() if isinstance(v, torch.Tensor)}))
    return Run(machine, (Call(drawn, arguments, output, trace or Trace()),), source, "work")


def found(check: Check, run: Run) -> Finding:
    """What the check found; fails when it found nothing."""
    finding = check.find(run)
    assert finding is not None, f"{check.name} found nothing"
    assert finding.expected
    assert finding.got
    return finding

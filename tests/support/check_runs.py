"""Runs with chosen results and traces, for tests of checks."""

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
    """Return `value` as the judge receives it, with tensors on `device`."""
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
    """Return a trace of copies: (source, target, bytes, line)."""
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
    """Return a run with one call that returned `output`, an observed value."""
    drawn = drawn or {}
    arguments = facts_by_path(Encoder().facts({name: v for name, v in drawn.items() if isinstance(v, torch.Tensor)}))
    return Run(machine, (Call(drawn, arguments, output, trace or Trace()),), source, "work")


def failure(check: Check, run: Run) -> Finding:
    """Return the check's finding; fail if there is none."""
    finding = check.find(run)
    assert finding is not None, check.name
    assert finding.expected
    assert finding.got
    return finding

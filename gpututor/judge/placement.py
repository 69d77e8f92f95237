"""How it is known where tensors lived: the trace says so, the driver supports it, or only the worker says so."""

from __future__ import annotations

from gpututor.checks.core import Run
from gpututor.grading.report import Placement
from gpututor.judge.nvml import memory_of
from gpututor.processes import tree
from gpututor.wire.messages import MachineSpec

_MOST_LOOKED_AT = 256


def placement_of(run: Run, machine: MachineSpec, pid: int) -> Placement:
    """Of a run whose worker, process `pid`, is still there.

    On CUDA it is corroborated where the driver says that the worker holds at least what tensors held in the call that
    held most: the caching allocator keeps that. It is memory that was held, not which tensors held it.
    """
    if not run.calls:
        return ""
    if machine.kind == "virtual":
        return "traced"
    if machine.kind != "cuda":
        return "self-reported"
    claimed = max(sum(use.after for use in call.memory.values()) for call in run.calls)
    held = memory_of(set(tree(pid, _MOST_LOOKED_AT)))
    return "corroborated" if held is not None and held >= max(claimed, 1) else "self-reported"

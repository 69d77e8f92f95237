"""The values, from a single launch of a kernel that moves each element once."""

from __future__ import annotations

import torch

from gpututor.checks import (
    coalesced,
    in_bounds,
    launches,
    no_races,
    parity,
    placement,
    programs,
    structure,
    syncs,
    traffic,
    transfers,
)

LONGEST = 8192
"""Elements that a single program may take."""


def reference(x: torch.Tensor, scale: float, shift: float) -> torch.Tensor:
    """The line, and nothing below zero."""
    return (scale * x + shift).clamp_min(0)


checks = [
    structure(reference),
    in_bounds(),
    no_races(),
    placement("device"),
    parity(reference).with_points(2),
    transfers(to_device=0, to_host=0),
    syncs(at_most=0),
    launches(
        1,
        by_name={"aten::*": 0},
        why="Each PyTorch operator reads and writes the whole vector. A kernel does all of it in one pass.",
        advice="Compute everything between one tl.load and one tl.store, and launch the kernel once.",
    ),
    programs(
        lambda drawn, machine: 1 + (drawn["x"].numel() > LONGEST),
        advice="A program for each block of elements: triton.cdiv(n, BLOCK) of them.",
    ),
    coalesced(at_least=0.8),
    traffic(at_most=1.2),
]

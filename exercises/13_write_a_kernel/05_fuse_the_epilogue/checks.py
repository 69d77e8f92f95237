"""A layer with its bias, activation and residual, from one kernel that stores each tile of the result once."""

from __future__ import annotations

import torch

from gpututor.checks import in_bounds, launches, no_races, parity, placement, structure, syncs, traffic


def reference(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
    """The layer on the CPU."""
    return (x @ weight + bias).relu() + residual


checks = [
    structure(reference, advice="torch.empty_like(residual) has the right shape, dtype and device."),
    in_bounds(advice="The bias has an edge at n, the residual at m and n: mask both loads."),
    no_races(advice="Each tile of the result belongs to one program."),
    placement("device"),
    parity(
        reference,
        why="Bias, activation and residual apply once, to the finished sum, in this order.",
        advice="After the loop over k: add the bias of the tile's columns, clamp at 0, then add the residual.",
    ).with_points(2),
    syncs(at_most=0, why="The host needs no value.", advice="Take the sizes from the shapes."),
    launches(
        1,
        by_name={"aten::*": 0},
        why="Each operator after the product loads and stores the whole result again.",
        advice="Do it in the kernel, between the loop over k and the store.",
    ),
    traffic(
        at_most=3,
        why="The tile is in registers: only the bias and the residual must be loaded for the epilogue.",
        advice="Load the residual once, after the loop, and store the result once.",
    ),
]

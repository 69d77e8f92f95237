"""Softmax over rows, from a single launch of a kernel that loads and stores each element once."""

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
)


def reference(x: torch.Tensor) -> torch.Tensor:
    """Softmax over rows, on the CPU."""
    return torch.softmax(x, dim=1)


checks = [
    structure(reference, advice="torch.empty_like(x) has the right shape and dtype."),
    in_bounds(advice="A block has more lanes than the row has elements: mask the load and the store."),
    no_races(advice="Each row belongs to one program."),
    placement("device"),
    parity(
        reference,
        why="Lanes beyond the row take part in the maximum and in the sum, and must change neither.",
        advice='Subtract the row\'s own maximum before exp. Give masked lanes a value whose exp is 0: float("-inf").',
    ).with_points(2),
    syncs(at_most=0, why="The host needs no value.", advice="Take the sizes from x.shape."),
    launches(
        1,
        by_name={"aten::*": 0},
        why="Each PyTorch operator reads and writes the whole matrix.",
        advice="Compute everything between one tl.load and one tl.store, and launch the kernel once.",
    ),
    programs(
        lambda drawn, machine: 1 + (len(drawn["x"]) > 3),
        advice="A program for each row: the grid is (rows,), and tl.program_id(0) is the row.",
    ),
    coalesced(at_least=0.7, advice="Let the lanes of a program be neighbors in a row."),
    traffic(
        at_most=1.3,
        why="A row that is loaded for the maximum, for the sum and for the quotient is loaded three times.",
        advice="Load the whole row into one block, and keep it: x, its maximum and its sum are variables.",
    ),
]

"""The largest neighbors, from a single launch of a kernel that stays within each row."""

from __future__ import annotations

import torch
from torch.nn import functional

from gpututor.checks import coalesced, in_bounds, launches, no_races, parity, placement, structure, syncs


def reference(x: torch.Tensor) -> torch.Tensor:
    """A maximum over windows of three, in which nothing is beyond the ends of a row."""
    return functional.max_pool1d(x, kernel_size=3, stride=1, padding=1)


checks = [
    structure(reference, advice="torch.empty_like(x) has the right shape and dtype."),
    in_bounds(
        advice="Give each of the three loads its own mask, and the store the mask of the elements that exist.",
    ),
    no_races(advice="Each element is stored by one program: its row, and its block of the row."),
    placement("device"),
    parity(
        reference,
        why="The first and the last element of a row have one neighbor; a lane without a neighbor must change nothing.",
        advice="Compare `at` with 0 and with `columns`, not with the ends of the tensor; `other` must never win.",
    ).with_points(2),
    syncs(at_most=0, why="The host needs no value.", advice="Take the sizes from x.shape."),
    launches(
        1,
        by_name={"aten::*": 0},
        why="Each PyTorch operator reads and writes the whole matrix. One kernel loads neighbors from the cache.",
        advice="Three loads, two comparisons and one store, in one kernel.",
    ),
    coalesced(at_least=0.5, advice="Let the lanes of a program be neighbors in a row."),
]

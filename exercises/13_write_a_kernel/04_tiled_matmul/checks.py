"""The product, from a kernel whose programs load tiles and use them for many elements."""

from __future__ import annotations

import torch

from gpututor.checks import in_bounds, launches, no_races, parity, placement, structure, syncs, traffic


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The product on the CPU."""
    return a @ b


checks = [
    structure(reference, advice="a.new_empty(m, n) has the right shape, dtype and device."),
    in_bounds(advice="A tile has an edge in each dimension: the tile of `a` at m and k, the tile of `b` at k and n."),
    no_races(advice="Each tile of the result belongs to one program, which goes through all of k by itself."),
    placement("device"),
    parity(
        reference,
        why="The sum goes through all of k, and lanes beyond the edge of k take part in tl.dot.",
        advice="Start at zero, add the product of each pair of tiles, and load zeros beyond the edge: other=0.0.",
    ).with_points(2),
    syncs(at_most=0, why="The host needs no value.", advice="Take the sizes from the shapes."),
    launches(
        1,
        by_name={"aten::*": 0},
        why="One launch computes all tiles.",
        advice="Use a grid of two dimensions: tiles down, and tiles across.",
    ),
    traffic(
        at_most=3.5,
        why="Each row of `a` is loaded once for each tile across, each column of `b` once for each tile down.",
        advice="Use tiles of 32 × 32. With half the side, everything is loaded twice as often.",
    ),
]

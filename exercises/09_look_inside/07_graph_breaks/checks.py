"""The values, from one compiled graph without breaks, with few kernels and no waits."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from gpututor.checks import Machine, compilations, launches, parity, placement, structure, syncs

KERNELS = 5
"""Most kernels of a compiled step and of saving its results; without the compiler there are eight."""


def reference(batches: torch.Tensor, limit: float) -> tuple[torch.Tensor, torch.Tensor]:
    """All batches at once, by a mask."""
    hidden = functional.gelu(batches)
    norms = hidden.flatten(1).norm(dim=1)
    factors = torch.where(norms > limit, limit / norms, torch.ones_like(norms))
    return (hidden * factors[:, None, None]).mean(dim=1), norms


def few_kernels(drawn: dict[str, Any], machine: Machine) -> tuple[int, int]:
    """Return the bounds: kernels of compiled steps, and some to put the results together."""
    return 1, KERNELS * len(drawn["batches"]) + 4


checks = [
    structure(reference, advice="Return (pooled, norms): two tensors, with one row or one number for each batch."),
    placement("device", advice="Norms and means are on the GPU already: leave them there."),
    parity(
        reference,
        why="The limit applies to some of the batches only, and `norms` holds the values before it.",
        advice="Compute both possible results, and let torch.where choose: its condition is a tensor, norm > limit.",
    ).with_points(2),
    compilations(
        breaks=0,
        name="graph_breaks",
        why="At a graph break the compiled code ends, Python continues, and nothing is fused across it.",
        advice="Choose with tensors instead of `if`; return what you want to log; `fullgraph=True` names what is left.",
    ),
    compilations(
        1,
        name="one_graph",
        why="One graph serves all batches, because they have the same shape. Each further one takes time to compile.",
        advice="Compile `step` once, outside of the loop, and call it for each batch.",
    ),
    syncs(
        at_most=0,
        why="The host has to wait for the GPU before it can decide or print.",
        advice="Read no value, neither in `step` nor in the loop around it: return the norms as a tensor.",
    ),
    launches(
        few_kernels,
        why="A compiled step needs a kernel or two for the norm, and another for the mean.",
        advice="Keep all of the computation inside of the compiled function.",
        on=lambda machine: machine.virtual,
    ),
]

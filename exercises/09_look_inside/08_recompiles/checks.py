"""The values, from a single compilation, with no waits and no operators outside of compiled code."""

from __future__ import annotations

import torch
from torch.nn import functional

from gpututor.checks import compilations, launches, parity, placement, structure, syncs


def reference(batches: list[torch.Tensor], scale: torch.Tensor, shift: torch.Tensor) -> list[torch.Tensor]:
    """Batch by batch, by the task's formula."""
    return [functional.gelu(batch * scale + shift).mean(dim=1) for batch in batches]


checks = [
    structure(reference, advice="Return a list with one tensor for each batch: its own rows, and k columns."),
    placement("device", advice="The means are on the GPU already: leave them there."),
    parity(
        reference,
        why="Each mean is over the positions of its own batch.",
        advice="If you pad: `gelu(shift)` is not 0. Mask the padding after the activation; divide by the true length.",
    ).with_points(2),
    compilations(
        1,
        name="one_graph",
        why="Each further version of the code takes time to compile, and after eight the compiler gives up.",
        advice=(
            "Let every size that changes be dynamic from the first call on (`dynamic=True`), or give the compiled"
            " function the same shape each time, and no number that changes."
        ),
    ),
    syncs(
        at_most=0,
        why="The host knows all shapes without the GPU.",
        advice="Take sizes from `batch.shape`; read no value of a tensor.",
    ),
    launches(
        by_name={"aten::gelu": 0},
        name="compiled",
        why="An activation outside of compiled code is a kernel of its own, and reads and writes the whole batch.",
        advice="Send every batch through the compiled function, the last one too.",
        on=lambda machine: machine.virtual,
    ),
]

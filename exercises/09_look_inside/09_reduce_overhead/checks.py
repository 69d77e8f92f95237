"""All steps' outputs, from a compiled graph that is replayed with one launch."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from gpututor.checks import Machine, compilations, launches, parity, placement, structure, syncs, transfers

BLOCKS = 2
KERNELS = 3 * BLOCKS + 1
"""Kernels of one forward pass that is not compiled."""


def reference(model: dict[str, torch.Tensor], batches: torch.Tensor) -> torch.Tensor:
    """The network written out, for all batches at once."""
    hidden = batches
    for block in range(BLOCKS):
        hidden = functional.gelu(hidden @ model[f"{block}.0.weight"].T + model[f"{block}.0.bias"])
        weight, bias = model[f"{block}.2.weight"], model[f"{block}.2.bias"]
        hidden = functional.layer_norm(hidden, hidden.shape[-1:], weight, bias)
    return hidden @ model[f"{BLOCKS}.weight"].T + model[f"{BLOCKS}.bias"]


def few_launches(drawn: dict[str, Any], machine: Machine) -> tuple[int, int]:
    """Return the bounds: a replay and two copies for each step, and three passes without a replay."""
    steps = len(drawn["batches"])
    return steps, 3 * steps + 3 * KERNELS


checks = [
    structure(reference, advice="One output for each batch, stacked in their order."),
    placement("device", advice="The outputs are on the GPU already: leave them there."),
    parity(
        reference,
        why="Each replay writes its output to the same memory.",
        advice="Copy each output, outside of the compiled model, before the next call overwrites it.",
    ).with_points(2),
    transfers(
        to_host=0,
        why="A copy to the host waits for the device, and the host needs no value.",
        advice="Read no value: batches and outputs stay on the GPU.",
    ),
    syncs(
        at_most=0,
        why="A wait in each step costs what the graph saves.",
        advice="The replays of one stream run in their order: the host need not wait.",
    ),
    compilations(
        1,
        name="one_graph",
        why="All batches have the same shape, so a single compilation and a single CUDA graph serve them all.",
        advice="compiled = torch.compile(model, …), once, before the loop; then call `compiled`.",
    ),
    launches(
        few_launches,
        why="From the third call on, a call of a recorded graph is one launch, however many kernels it has.",
        advice=(
            'Compile with mode="reduce-overhead", and call the compiled model for each batch by itself. A graph that'
            " writes to its inputs or has tensors on the CPU is not recorded; the compiler says so in its log."
        ),
        on=lambda machine: machine.virtual,
    ),
]

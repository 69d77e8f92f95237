"""A copy and a pass of the model for each batch, and a single batch in memory."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.checks import launches, memory, parity, placement, speed, structure, transfers

ROUNDING = 512
"""Bytes that the allocator rounds each tensor up to."""


def reference(state: dict[str, torch.Tensor], samples: torch.Tensor, batch_size: int) -> torch.Tensor:
    """The network as a formula, for all samples at once, on the CPU."""
    hidden = (samples @ state["0.weight"].T + state["0.bias"]).clamp(min=0)
    return hidden @ state["2.weight"].T + state["2.bias"]


def batches(drawn: dict[str, Any], machine: Any = None) -> int:
    """The number of batches."""
    return -(-len(drawn["samples"]) // int(drawn["batch_size"]))


def passes(drawn: dict[str, Any], machine: Any = None) -> tuple[int, int]:
    """Launches: three or four for each batch, and a few to put the results together."""
    return 3, 4 * batches(drawn) + 3


def one_batch(drawn: dict[str, Any], machine: Any = None) -> int:
    """Bytes of the results, twice, of a batch, of its hidden values before and after the ReLU, and of the rounding.

    The variables of a loop keep the batch before and its hidden values until they are assigned again.
    """
    width = 2 * drawn["samples"].shape[1] + 3 * len(drawn["state"]["0.bias"])
    rows = min(len(drawn["samples"]), drawn["batch_size"])
    results = 4 * len(drawn["samples"]) * len(drawn["state"]["2.bias"])
    return 4 * rows * width + 2 * results + ROUNDING * (batches(drawn) + 6)


checks = [
    structure(reference, advice="Join the batches' outputs along their first dimension; the last may be smaller."),
    placement(
        why="The next step reads the outputs on the device.",
        advice="Move each batch to the model's device; leave the outputs there.",
    ),
    transfers(
        to_device=batches,
        to_host=0,
        bytes_to_device=lambda drawn, machine: drawn["samples"].nbytes,
        why="Each sample has to cross once, and a batch of them crosses in one copy.",
        advice="samples.split(batch_size) gives the batches, the last one too. Move each of them whole.",
    ),
    speed(
        1 / 4,
        compared_with="one sample at a time",
        why="One launch for a whole batch takes hardly longer than one launch for a single sample.",
        advice="Call the model with a whole batch of two dimensions, not with one sample after the other.",
    ),
    launches(
        passes,
        by_name={"aten::addmm": lambda drawn, machine: 2 * batches(drawn)},
        why="A launch costs the host the same for one row as for a whole batch.",
        advice="Call the model once for each batch: it computes all rows in the same few kernels.",
    ),
    memory(
        peak=one_batch,
        why="Memory grows with what is held at a time. Only the outputs of all batches are needed in the end.",
        advice="Move a batch right before the model needs it, not all at the start. Without torch.inference_mode() or"
        " torch.no_grad() each output keeps its batch's hidden values for a backward pass.",
    ),
    parity(reference, why="The order of the outputs is the order of the samples."),
]

"""A single wait, for the result, and padding that does not count."""

from __future__ import annotations

import torch

from gpututor.checks import parity, placement, structure, syncs, transfers

Batch = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def reference(batches: list[Batch], weights: torch.Tensor) -> torch.Tensor:
    """Sample by sample, on the CPU."""
    losses = []
    for x, y, valid in batches:
        for sample, label, counts in zip(x, y.tolist(), valid.tolist(), strict=True):
            if counts:
                scores = sample @ weights
                losses.append(torch.logsumexp(scores, dim=0) - scores[label])
    every = torch.stack(losses)
    return torch.stack([every.mean(), every.max()])


checks = [
    structure(reference, advice="Two tensors without dimensions have to become one of shape (2,)."),
    placement(
        "cpu",
        why="The caller reads both numbers on the host.",
        advice="Copy the finished result to the CPU, once.",
    ),
    syncs(
        at_most=1,
        why="At each wait the host stops launching. The device runs out of work, and the next batch starts late.",
        advice="Keep total, count and worst as tensors on the device. Use torch.where instead of a mask as an index,"
        " and torch.maximum instead of an if. Do not print in the loop.",
    ),
    transfers(
        to_host=1,
        bytes_to_host=8,
        why="The result is two numbers: eight bytes.",
        advice="Join the two results on the device, and copy them together.",
    ),
    parity(
        reference,
        why="Padding must not count, and batches have different numbers of valid samples.",
        advice="NaN times 0 is NaN: choose with torch.where, do not multiply. Divide the total by the number of valid"
        " samples, once.",
    ),
]

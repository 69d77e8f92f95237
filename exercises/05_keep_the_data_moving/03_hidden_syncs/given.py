"""Batches of samples, some of which are padding that holds anything."""

from __future__ import annotations

from typing import Any

import torch

SIZES = (((12, 9, 15, 3), 8, 5), ((7, 1, 5), 3, 4), ((33,), 6, 2))
"""Samples of each batch, features and classes, for each case."""


def draw(seed: int, case: int) -> dict[str, Any]:
    """Batches (x, y, valid). At least one sample of each is valid; the x of others holds NaN, inf or large values."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    counts, features, classes = SIZES[case]
    batches = []
    for count in counts:
        x = torch.randn(count, features, generator=chance)
        y = torch.randint(0, classes, (count,), generator=chance)
        valid = torch.rand(count, generator=chance) < 0.6
        valid[int(torch.randint(0, count, (), generator=chance))] = True
        for position, padded in enumerate((~valid).nonzero().flatten().tolist()):
            x[padded, position % features] = (float("nan"), 1e4, float("inf"))[position % 3]
        batches.append((x, y, valid))
    return {"batches": batches, "weights": torch.randn(features, classes, generator=chance)}


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Put everything on the device."""
    batches = [tuple(part.to(device) for part in batch) for batch in drawn["batches"]]
    return {"batches": batches, "weights": drawn["weights"].to(device)}

"""Statistics of some features, a gain, and batches: several, an odd shape, one row."""

from __future__ import annotations

from typing import Any

import torch

SIZES = (((16, 16, 5), 8), ((9, 7, 3, 2), 5), ((1,), 11))
"""Rows of each batch, and features, for each case."""


def draw(seed: int, case: int) -> dict[str, Any]:
    """Features of different scales and signs; no gain is 1, and no two elements are equal."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    rows, features = SIZES[case]
    mean = 5 * torch.randn(features, generator=chance)
    std = 0.5 + 3 * torch.rand(features, generator=chance)
    return {
        "mean": mean,
        "std": std,
        "gain": 1.5 + torch.rand(features, generator=chance),
        "batches": [mean + std * torch.randn(count, features, generator=chance) for count in rows],
    }


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Put the batches on the device; the layer's future state stays on the CPU."""
    return {**drawn, "batches": [batch.to(device) for batch in drawn["batches"]], "device": device}

"""A batch in host memory, and weights on the device."""

from __future__ import annotations

from typing import Any

import torch

SIZES = ((64, 20, 10), (31, 7, 5), (1, 12, 3))
"""Rows, columns and classes for each case."""


def draw(seed: int, case: int) -> dict[str, Any]:
    """Columns of very different means and spreads, with an outlier here and there."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    rows, columns, classes = SIZES[case]
    spread = 10 ** torch.empty(columns).uniform_(-1, 2, generator=chance)
    values = torch.randn(rows, columns, generator=chance)
    values[torch.rand(rows, columns, generator=chance) < 0.05] *= 6
    return {
        "batch": (values + torch.randn(columns, generator=chance)) * spread,
        "weights": torch.randn(columns, classes, generator=chance) / columns**0.5,
    }


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """The batch has just been read and is on the CPU; the weights are on the device."""
    return {"batch": drawn["batch"], "weights": drawn["weights"].to(device)}

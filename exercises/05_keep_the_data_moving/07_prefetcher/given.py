"""Batches in pinned memory, and layers on the device."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch

SIZES = (((64,) * 8, 512, 32), ((33, 50, 48, 50, 41, 50), 385, 17), ((60, 60, 60, 60, 60, 60, 1), 440, 24))
"""Rows of each batch, columns and classes, for each case."""
HIDDEN = 512


def draw(seed: int, case: int) -> dict[str, Any]:
    """Batches, and layers whose products take longer than a batch's copy."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    rows, columns, classes = SIZES[case]
    widths = (columns, HIDDEN, HIDDEN, HIDDEN, classes)
    return {
        "batches": [torch.randn(count, columns, generator=chance) for count in rows],
        "layers": [torch.randn(before, after, generator=chance) / before**0.5 for before, after in pairwise(widths)],
    }


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """The batches are in page-locked memory; the layers are on the device."""
    batches = [batch.pin_memory() for batch in drawn["batches"]]
    return {"batches": batches, "layers": [layer.to(device) for layer in drawn["layers"]]}

"""A batch and two layers of random sizes: the first is sometimes the larger one, and sometimes the second."""

from __future__ import annotations

from typing import Any

import torch

SIZES = ((400, 800, 350, 700), (321, 401, 777, 555), (700, 500, 600, 1))
"""Rows, features, hidden size and classes for each case; up to 63 are added to all but the one class."""


def draw(seed: int, case: int) -> dict[str, Any]:
    """Return positive values, so that no sum cancels to almost nothing."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    more = torch.randint(64, (4,), generator=chance).tolist()
    sizes = [size + extra if size > 1 else 1 for size, extra in zip(SIZES[case], more, strict=True)]
    rows, features, hidden, classes = sizes
    return {
        "batch": torch.rand(rows, features, generator=chance),
        "first": torch.rand(features, hidden, generator=chance),
        "second": torch.rand(hidden, classes, generator=chance),
    }


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Put everything on the device."""
    return {name: tensor.to(device) for name, tensor in drawn.items()}

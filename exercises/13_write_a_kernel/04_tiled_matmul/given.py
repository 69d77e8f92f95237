"""Pairs of matrices: whole tiles, sizes that are no multiples of a tile, and a short side."""

from __future__ import annotations

from typing import Any

import torch

SIZES = ((96, 64, 96), (70, 50, 90), (33, 129, 80))
"""Rows, the sum's length, and columns for each case."""


def draw(seed: int, case: int) -> dict[str, Any]:
    """Two matrices whose elements all differ."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    m, k, n = SIZES[case]
    return {"a": torch.randn(m, k, generator=chance), "b": torch.randn(k, n, generator=chance)}


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """The matrices on the device."""
    return {name: matrix.to(device) for name, matrix in drawn.items()}

"""Layers whose sizes are no multiples of a tile, and a small one."""

from __future__ import annotations

from typing import Any

import torch

SIZES = ((70, 50, 90), (96, 64, 64), (33, 20, 40))
"""Rows, inputs and outputs for each case."""


def draw(seed: int, case: int) -> dict[str, Any]:
    """Inputs, weights, a bias and a residual, all about as large: each changes the result."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    m, k, n = SIZES[case]
    return {
        "x": torch.randn(m, k, generator=chance),
        "weight": torch.randn(k, n, generator=chance) / k**0.5,
        "bias": torch.randn(n, generator=chance),
        "residual": torch.randn(m, n, generator=chance),
    }


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """All tensors on the device."""
    return {name: tensor.to(device) for name, tensor in drawn.items()}

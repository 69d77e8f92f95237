"""Rows with a mean far from zero, and layers whose weights keep the values at their size."""

from __future__ import annotations

from typing import Any

import torch

SIZES = ((128, 32, 6), (257, 16, 4), (512, 1, 5))
"""Rows, width and layers for each case: no size of `rows` hides in the allocator's rounding."""


def draw(seed: int, case: int) -> dict[str, Any]:
    """Rows, their mean, and a weight and a bias for each layer."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    rows, width, depth = SIZES[case]
    mean = 3 * torch.randn(width, generator=chance)
    layers = []
    for _ in range(depth):
        weight = torch.randn(width, width, generator=chance) / width**0.5
        layers.append(
            (
                weight.sign() * weight.abs().clamp(min=0.05),
                torch.randn(width, generator=chance),
            )
        )
    return {
        "rows": mean + torch.randn(rows, width, generator=chance),
        "mean": mean,
        "layers": layers,
    }


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Put everything on the device; weights and biases need gradients."""
    return {
        "rows": drawn["rows"].to(device),
        "mean": drawn["mean"].to(device),
        "layers": [tuple(part.to(device).requires_grad_() for part in layer) for layer in drawn["layers"]],
    }

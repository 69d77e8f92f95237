"""The output of a fused projection, and what attention computed for each head."""

from __future__ import annotations

from typing import Any

import torch

SIZES = ((2, 6, 2, 4), (3, 5, 3, 7), (2, 9, 1, 6), (4, 1, 5, 3))
"""Batch, time, heads and size of a head, for each case."""


def draw(seed: int, case: int) -> dict[str, Any]:
    """Two contiguous tensors and the number of heads."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    batch, time, heads, size = SIZES[case]
    return {
        "qkv": torch.randn(batch, time, 3 * heads * size, generator=chance),
        "context": torch.randn(batch, heads, time, size, generator=chance),
        "heads": heads,
    }


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Both tensors on the device."""
    return {
        "qkv": drawn["qkv"].to(device),
        "context": drawn["context"].to(device),
        "heads": drawn["heads"],
    }

"""Data of several lengths: less than a block, whole blocks, one element, and part of a block at the end."""

from __future__ import annotations

from typing import Any

import torch

SIZES = (700, 2048, 1, 9516)


def draw(seed: int, case: int) -> dict[str, Any]:
    """A vector, and two numbers."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    scale, shift = (torch.randn(2, generator=chance) * 2).tolist()
    return {"x": torch.randn(SIZES[case], generator=chance), "scale": scale, "shift": shift}


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """The vector on the device."""
    return {**drawn, "x": drawn["x"].to(device)}

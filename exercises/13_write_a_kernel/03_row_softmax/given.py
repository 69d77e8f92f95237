"""Rows of several lengths: no power of two, a power of two, one element, short ones and long ones."""

from __future__ import annotations

from typing import Any

import torch

SIZES = ((6, 100), (3, 256), (2, 1), (5, 77), (4, 300))


def draw(seed: int, case: int) -> dict[str, Any]:
    """Rows around different levels, some far below zero and some so large that exp overflows."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    rows, columns = SIZES[case]
    levels = torch.tensor([200.0, -150.0, 0.0, -1000.0])[(torch.arange(rows) + case) % 4]
    return {"x": 2 * torch.randn(rows, columns, generator=chance) + levels[:, None]}


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """The matrix on the device."""
    return {"x": drawn["x"].to(device)}

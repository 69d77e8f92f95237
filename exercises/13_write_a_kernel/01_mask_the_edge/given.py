"""Matrices whose rows are longer than a block and shorter, a single element, and whole blocks."""

from __future__ import annotations

from typing import Any

import torch

SIZES = ((3, 200), (5, 7), (1, 1), (2, 256))


def draw(seed: int, case: int) -> dict[str, Any]:
    """Rows that are mostly negative, or much larger than the row before: a neighbor of another row would win."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    rows, columns = SIZES[case]
    levels = torch.tensor([-30.0, 10.0])[(torch.arange(rows) + case) % 2]
    return {"x": torch.randn(rows, columns, generator=chance) * 3 + levels[:, None]}


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """The matrix on the device."""
    return {"x": drawn["x"].to(device)}

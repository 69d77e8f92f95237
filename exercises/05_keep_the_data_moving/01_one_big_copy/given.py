"""A table in host memory, and the numbers of the rows that are wanted on the device."""

from __future__ import annotations

from typing import Any

import torch

SIZES = ((500, 256, 300), (37, 65, 90), (41, 7, 1))
"""Rows, columns and how many rows are wanted, for each case."""


def draw(seed: int, case: int) -> dict[str, Any]:
    """Return a table and row numbers in no order. If there are more numbers than rows, some rows repeat."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    rows, columns, count = SIZES[case]
    return {
        "table": torch.randn(rows, columns, generator=chance),
        "wanted": torch.randint(0, rows, (count,), generator=chance).tolist(),
    }


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Add the device. The table stays on the CPU."""
    return {**drawn, "device": device}

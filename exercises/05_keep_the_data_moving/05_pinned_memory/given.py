"""Batches in pageable host memory, and where to begin."""

from __future__ import annotations

from typing import Any

import torch

SIZES = ((2, 1024, 1024, 32), (3, 133, 517, 5), (1, 20, 64, 2))
"""Batches, rows of each, columns and passes, for each case."""


def draw(seed: int, case: int) -> dict[str, Any]:
    """Rows that spread a little more along one random direction; all start values are positive."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    count, rows, columns, passes = SIZES[case]
    direction = torch.randn(columns, generator=chance)
    batches = []
    for _ in range(count):
        strength = torch.randn(rows, 1, generator=chance)
        batches.append(torch.randn(rows, columns, generator=chance) + 0.08 * strength * direction)
    return {"batches": batches, "start": torch.rand(columns, generator=chance) + 0.1, "passes": passes}


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """The batches stay in pageable memory; the start is on the device."""
    return {"batches": drawn["batches"], "start": drawn["start"].to(device), "passes": drawn["passes"]}

"""Batches of sentences: their lengths differ, and the last batch has fewer rows."""

from __future__ import annotations

from typing import Any

import torch

SIZES = ((11, 6, 32), (10, 4, 24), (9, 7, 40))
"""Batches, rows and columns for each case."""
LENGTHS = range(9, 23)
"""Lengths, all above the numbers of rows and below those of columns: equal sizes share a variable in compiled code."""


def draw(seed: int, case: int) -> dict[str, Any]:
    """Batches, each of another length; the last has fewer rows."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    count, rows, columns = SIZES[case]
    lengths = torch.randperm(len(LENGTHS), generator=chance)[:count].tolist()
    fewer = int(torch.randint(2, rows, (), generator=chance))
    batches = [
        torch.randn(fewer if number == count - 1 else rows, LENGTHS[length], columns, generator=chance)
        for number, length in enumerate(lengths)
    ]
    scale, shift = torch.randn(2, columns, generator=chance).unbind()
    return {"batches": batches, "scale": scale.clone(), "shift": shift.clone()}


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Put all tensors on the device."""
    batches = [batch.to(device) for batch in drawn["batches"]]
    return {"batches": batches, "scale": drawn["scale"].to(device), "shift": drawn["shift"].to(device)}

"""Matrices of 100 by 100: many, an odd number, one. Fewer than a thousand, so that a grading is quick."""

from __future__ import annotations

from typing import Any

import torch

COUNTS = (64, 37, 1)


def draw(seed: int, case: int) -> dict[str, Any]:
    """Each matrix has a scale of its own, so that no two norms are alike."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    count = COUNTS[case]
    scales = torch.rand(count, 1, 1, generator=chance) + 0.05
    return {"matrices": scales * torch.randn(count, 100, 100, generator=chance)}


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """A list of matrices, on the device."""
    return {"matrices": list(drawn["matrices"].to(device))}

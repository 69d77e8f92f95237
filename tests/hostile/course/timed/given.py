"""A matrix that is small beside the work on it."""

from __future__ import annotations

from typing import Any

import torch


def draw(seed: int, case: int) -> dict[str, Any]:
    chance = torch.Generator().manual_seed(seed * 10 + case)
    return {"matrix": torch.randn(96, 96, generator=chance) / 10}

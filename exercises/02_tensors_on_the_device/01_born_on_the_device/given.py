"""The size of a grid: ordinary, odd, and with one row only."""

from __future__ import annotations

import random
from typing import Any

import torch


def draw(seed: int, case: int) -> dict[str, Any]:
    """A height and a width that differ, so that a swapped grid has the wrong shape."""
    chance = random.Random(seed * 10 + case)
    height = [16, 9, 1][case]
    return {"height": height, "width": height + chance.randint(3, 12)}


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Add the device."""
    return {**drawn, "device": device}

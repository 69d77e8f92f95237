"""The size of a grid: ordinary, odd, and with one row only."""

from __future__ import annotations

import random
from typing import Any

import torch


def here() -> torch.device:
    """The device of this scenario with its number; the CPU where there is none."""
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    return torch.device("cpu") if accelerator is None else torch.empty(0, device=accelerator).device


def draw(seed: int, case: int) -> dict[str, Any]:
    """A height and a width that differ, so that a swapped grid has the wrong shape."""
    chance = random.Random(seed * 10 + case)
    height = [16, 9, 1][case]
    return {"height": height, "width": height + chance.randint(3, 12)}


def build(drawn: dict[str, Any]) -> dict[str, Any]:
    """Adds the device."""
    return {**drawn, "device": here()}

"""Ascending sizes: around the crossover of a T4, around that of an H100, and so small that no GPU wins."""

from __future__ import annotations

from typing import Any

import torch

SIZES = ((48, 200, 360, 480), (33, 97, 149, 301, 401), (2, 24, 57))
"""Sizes of each case; up to 15 are added to each. A product of size 1 would be no product in `torch.einsum`."""


def draw(seed: int, case: int) -> dict[str, Any]:
    """Return random sizes, so that no time can be hard-coded."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    more = torch.randint(16, (len(SIZES[case]),), generator=chance).tolist()
    return {"sizes": [size + extra for size, extra in zip(SIZES[case], more, strict=True)]}


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Add the device."""
    return {**drawn, "device": device}

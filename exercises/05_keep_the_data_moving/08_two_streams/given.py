"""Features and two towers, all of it on the device."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch

SIZES = ((64, 300, 256, 6, 12), (33, 259, 257, 7, 5), (17, 270, 260, 8, 1))
"""Rows, features, width, layers of each tower and width of the results, for each case."""


def draw(seed: int, case: int) -> dict[str, Any]:
    """Small products: each takes longer than its launch, and none fills the device. All positive."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    rows, features, width, count, last = SIZES[case]

    def layers() -> list[torch.Tensor]:
        widths = [features, *[width] * (count - 1), last]
        return [torch.rand(before, after, generator=chance) * 2 / before for before, after in pairwise(widths)]

    return {"features": torch.rand(rows, features, generator=chance) + 0.1, "left": layers(), "right": layers()}


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Everything is on the device."""
    towers = {name: [layer.to(device) for layer in drawn[name]] for name in ("left", "right")}
    return {"features": drawn["features"].to(device), **towers}

"""A few blocks that are four times as wide inside, and rows to train them on."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

SIZES = ((6, 16, 128), (6, 16, 128), (4, 7, 201), (1, 12, 96))
"""Blocks, width and rows for each case; the first one is not checkpointed."""


def draw(seed: int, case: int) -> dict[str, Any]:
    """The state of the blocks, and the rows. All positive: no sum cancels to almost nothing."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    depth, width, rows = SIZES[case]
    wide = 4 * width
    state = {}
    for block in range(depth):
        state[f"{block}.0.weight"] = 2 * torch.rand(wide, width, generator=chance) / width
        state[f"{block}.0.bias"] = torch.rand(wide, generator=chance)
        state[f"{block}.2.weight"] = 2 * torch.rand(width, wide, generator=chance) / wide
        state[f"{block}.2.bias"] = torch.rand(width, generator=chance)
    return {
        "state": state,
        "rows": torch.rand(rows, width, generator=chance),
        "checkpointed": case != 0,
    }


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """The blocks with their state, and the rows, on the device. Earlier work has left a peak on the meter."""
    rows = drawn["rows"].to(device)
    width, wide = rows.shape[1], 4 * rows.shape[1]
    blocks = nn.ModuleList(
        nn.Sequential(nn.Linear(width, wide), nn.Softplus(), nn.Linear(wide, width))
        for _ in range(len(drawn["state"]) // 4)
    )
    blocks.load_state_dict(drawn["state"])
    torch.empty(1 << 22, dtype=torch.uint8, device=device)
    return {"blocks": blocks.to(device), "rows": rows, "checkpointed": drawn["checkpointed"]}

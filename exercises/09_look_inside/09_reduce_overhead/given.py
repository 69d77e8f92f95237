"""A narrow network of many small kernels, and batches for it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import nn

SIZES = ((16, 8, 16, 24, 5), (11, 3, 7, 17, 4), (12, 1, 12, 20, 3))
"""Steps, rows of a batch, features, hidden units and classes for each case."""
BLOCKS = 2


def network(features: int, hidden: int, classes: int) -> nn.Sequential:
    """Linear layers, each with an activation and a normalization."""
    widths = [features] + [hidden] * BLOCKS
    blocks = [
        nn.Sequential(nn.Linear(before, after), nn.GELU(), nn.LayerNorm(after)) for before, after in pairwise(widths)
    ]
    return nn.Sequential(*blocks, nn.Linear(hidden, classes))


def draw(seed: int, case: int) -> dict[str, Any]:
    """Weights by name, and batches that all differ."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    steps, rows, features, hidden, classes = SIZES[case]
    state = {
        name: torch.randn(value.shape, generator=chance) / (value.shape[-1] ** 0.5 if value.dim() > 1 else 1.0)
        for name, value in network(features, hidden, classes).state_dict().items()
    }
    return {"model": state, "batches": torch.randn(steps, rows, features, generator=chance)}


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Put the model, in evaluation mode, and all batches on the device."""
    first, last = drawn["model"]["0.0.weight"], drawn["model"][f"{BLOCKS}.weight"]
    model = network(first.shape[1], first.shape[0], last.shape[0])
    model.load_state_dict(drawn["model"])
    return {"model": model.to(device).eval().requires_grad_(False), "batches": drawn["batches"].to(device)}

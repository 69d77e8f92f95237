"""Ensembles of small networks, on the device: 40, 23 and two of them."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

SIZES = ((40, 8, 16, 3, 12), (23, 5, 9, 4, 7), (2, 3, 4, 2, 1))
"""Models, features, hidden units, classes and rows for each case."""


def draw(seed: int, case: int) -> dict[str, Any]:
    """Weights of all models, stacked, and a batch."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    count, features, hidden, classes, rows = SIZES[case]
    return {
        "state": {
            "0.weight": torch.randn(count, hidden, features, generator=chance) / features**0.5,
            "0.bias": torch.randn(count, hidden, generator=chance),
            "2.weight": torch.randn(count, classes, hidden, generator=chance) / hidden**0.5,
            "2.bias": torch.randn(count, classes, generator=chance),
        },
        "batch": torch.randn(rows, features, generator=chance),
    }


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Return a list of networks, and the batch, on the device."""
    state = drawn["state"]
    _, hidden, features = state["0.weight"].shape
    classes = state["2.bias"].shape[1]
    models = []
    for number in range(len(state["0.bias"])):
        model = nn.Sequential(nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, classes))
        model.load_state_dict({name: value[number] for name, value in state.items()})
        models.append(model.to(device))
    return {"models": models, "batch": drawn["batch"].to(device)}

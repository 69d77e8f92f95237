"""A small classifier, batches and labels, and an optimizer that moves its weights by very little."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

RATE = 2e-3
"""Learning rate at which no step moves a weight by half the distance between bfloat16 numbers."""
SIZES = (
    {"steps": 6, "rows": 32, "features": 24, "hidden": 16, "classes": 8},
    {"steps": 4, "rows": 48, "features": 16, "hidden": 32, "classes": 12},
    {"steps": 5, "rows": 16, "features": 8, "hidden": 24, "classes": 10},
)


def draw(seed: int, case: int) -> dict[str, Any]:
    """Weights far from zero, because bfloat16 is fine near zero, and batches of different scales and losses."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    steps, rows, features, hidden, classes = SIZES[case].values()
    shapes = {"0.weight": (hidden, features), "0.bias": (hidden,), "2.weight": (classes, hidden), "2.bias": (classes,)}
    weights = {}
    for name, shape in shapes.items():
        drawn = torch.randn(shape, generator=chance)
        weights[name] = (0.5 + drawn.abs()) * drawn.sign() / shape[-1] ** 0.5
    weights["2.weight"] *= 2
    sizes = 0.2 + torch.randperm(steps, generator=chance)
    return {
        "weights": weights,
        "batches": torch.randn(steps, rows, features, generator=chance) * sizes[:, None, None],
        "labels": torch.randint(classes, (steps, rows), generator=chance),
    }


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Put everything on the device."""
    hidden, features = drawn["weights"]["0.weight"].shape
    classes = len(drawn["weights"]["2.bias"])
    model = nn.Sequential(nn.Linear(features, hidden), nn.Tanh(), nn.Linear(hidden, classes))
    model.load_state_dict(drawn["weights"])
    model.to(device)
    return {
        "model": model,
        "batches": drawn["batches"].to(device),
        "labels": drawn["labels"].to(device),
        "optimizer": torch.optim.SGD(model.parameters(), lr=RATE),
    }

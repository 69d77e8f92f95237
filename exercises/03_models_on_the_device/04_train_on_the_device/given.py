"""A small classifier and labeled batches, on the CPU: several steps, an odd number, a single row in a single step."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

SIZES = ((5, 16, 6, 4), (3, 7, 5, 3), (1, 1, 4, 2))
"""Steps, rows, features and classes for each case."""
HIDDEN = 8


def draw(seed: int, case: int) -> dict[str, Any]:
    """Weights, batches whose labels depend on their inputs, and a learning rate."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    steps, rows, features, classes = SIZES[case]
    shapes = {
        "0.weight": (HIDDEN, features),
        "0.bias": (HIDDEN,),
        "2.weight": (classes, HIDDEN),
        "2.bias": (classes,),
    }
    state = {name: 0.6 * torch.randn(shape, generator=chance) for name, shape in shapes.items()}
    truth = torch.randn(features, classes, generator=chance)
    batches = []
    for _ in range(steps):
        inputs = torch.randn(rows, features, generator=chance)
        batches.append((inputs, (inputs @ truth).argmax(dim=1)))
    rate = 0.02 + 0.05 * torch.rand((), generator=chance).item()
    return {"state": state, "batches": batches, "learning_rate": rate}


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """The model with these weights. Tanh is smooth: rounding cannot switch a unit on or off, as with ReLU."""
    hidden, features = drawn["state"]["0.weight"].shape
    model = nn.Sequential(nn.Linear(features, hidden), nn.Tanh(), nn.Linear(hidden, len(drawn["state"]["2.bias"])))
    model.load_state_dict(drawn["state"])
    return {
        "model": model,
        "batches": drawn["batches"],
        "learning_rate": drawn["learning_rate"],
        "device": device,
    }

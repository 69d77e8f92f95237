"""Short training runs: with gradients to clip, with an overflow, and with gradients too small for float16."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

SIZES = ((3, 48, 8, 24), (4, 40, 5, 17), (3, 32, 6, 20), (3, 32, 1, 15))
"""Steps, rows of a batch, features and hidden units for each case."""
SETTINGS = ((1.0, 0.5, 0.1), (1.0, 1.0, 0.05), (1e-5, 3e4, 2e-6), (0.5, 2.0, 0.02))
"""Weight of the loss, learning rate and largest norm for each case."""
OVERFLOWS = {1: 1, 3: 0}
"""The step of a case in which one target is so far off that scaled gradients overflow float16."""
FAR = 30000.0


def network(features: int, hidden: int) -> nn.Sequential:
    """The model, with any weights. Tanh is never exactly zero, so that what overflows is inf and not nan."""
    return nn.Sequential(nn.Linear(features, hidden), nn.Tanh(), nn.Linear(hidden, 1))


def draw(seed: int, case: int) -> dict[str, Any]:
    """The model's weights, batches and targets, and the settings."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    steps, rows, features, hidden = SIZES[case]
    weight, learning_rate, max_norm = SETTINGS[case]
    state = {
        "0.weight": torch.randn(hidden, features, generator=chance) * 0.35 / features**0.5,
        "0.bias": torch.randn(hidden, generator=chance) * 0.2,
        "2.weight": torch.randn(1, hidden, generator=chance) * 0.8 / hidden**0.5,
        "2.bias": torch.rand(1, generator=chance) * 0.1 + 0.3,
    }
    batches = torch.randn(steps, rows, features, generator=chance)
    targets = torch.randn(steps, rows, 1, generator=chance) * 0.2
    if case in OVERFLOWS:
        targets[OVERFLOWS[case], rows // 2] += FAR
    return {
        "model": state,
        "batches": batches,
        "targets": targets,
        "weight": weight,
        "learning_rate": learning_rate,
        "max_norm": max_norm,
    }


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """The model and the data, on the device."""
    hidden, features = drawn["model"]["0.weight"].shape
    model = network(features, hidden)
    model.load_state_dict(drawn["model"])
    data = {name: drawn[name].to(device) for name in ("batches", "targets")}
    return {**drawn, **data, "model": model.to(device)}

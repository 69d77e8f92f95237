"""A deep chain of small layers, and batches with targets, on the device."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

SIZES = ((9, 12, 16, 4), (5, 7, 11, 6), (1, 3, 6, 1))
"""Layers, features, rows and steps for each case."""


def network(layers: int, features: int) -> nn.Sequential:
    """Linear layers with Tanh in between: smooth, so rounding changes little."""
    parts: list[nn.Module] = []
    for _ in range(layers):
        parts += [nn.Linear(features, features), nn.Tanh()]
    return nn.Sequential(*parts[:-1])


def draw(seed: int, case: int) -> dict[str, Any]:
    """Weights, batches and a learning rate."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    layers, features, rows, steps = SIZES[case]
    state = {}
    for name, parameter in network(layers, features).named_parameters():
        scale = 1.0 if parameter.dim() > 1 else 0.3
        state[name] = scale * torch.randn(parameter.shape, generator=chance) / features**0.5
    pairs = torch.randn(steps, 2, rows, features, generator=chance)
    rate = 0.002 + 0.008 * torch.rand((), generator=chance).item()
    return {"state": state, "batches": [(inputs, targets) for inputs, targets in pairs], "learning_rate": rate}


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Model and batches on the device."""
    features = len(drawn["state"]["0.bias"])
    model = network(len(drawn["state"]) // 2, features)
    model.load_state_dict(drawn["state"])
    batches = [(inputs.to(device), targets.to(device)) for inputs, targets in drawn["batches"]]
    return {"model": model.to(device), "batches": batches, "learning_rate": drawn["learning_rate"]}

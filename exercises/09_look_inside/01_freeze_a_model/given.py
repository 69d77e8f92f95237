"""A small image classifier with dropout and a normalization, left in training mode, and two batches."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

SIZES = ((4, 7, 8, 6, 5), (3, 2, 5, 9, 4), (5, 11, 7, 1, 3))
"""Rows of the example, rows of the fresh batch, height, width and classes for each case."""
CHANNELS = 6


def network(classes: int) -> nn.Sequential:
    """The classifier, with any weights."""
    body = (nn.Conv2d(3, CHANNELS, 3, padding=1), nn.BatchNorm2d(CHANNELS), nn.ReLU())
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.5), nn.Linear(CHANNELS, classes))
    return nn.Sequential(*body, *head)


def draw(seed: int, case: int) -> dict[str, Any]:
    """The values of the trained model, and both batches."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    rows, fresh_rows, height, width, classes = SIZES[case]
    state = {
        name: torch.randn(value.shape, generator=chance)
        for name, value in network(classes).state_dict().items()
        if value.is_floating_point()
    }
    state["1.running_var"] = state["1.running_var"].square() + 0.2
    state["1.num_batches_tracked"] = torch.tensor(50 + case)
    example, fresh = (torch.randn(count, 3, height, width, generator=chance) for count in (rows, fresh_rows))
    return {"model": state, "example": example, "fresh": fresh}


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """The model on the CPU and in training mode; adds the device."""
    model = network(drawn["model"]["6.bias"].shape[0])
    model.load_state_dict(drawn["model"])
    return {**drawn, "model": model.train(), "device": device}

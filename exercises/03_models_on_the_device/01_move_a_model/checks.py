"""The whole state of the model: its names, its place, its values."""

from __future__ import annotations

import torch
from torch import nn

from gpututor.checks import parity, placement, structure


def reference(checkpoint: dict[str, torch.Tensor], channels: int, classes: int) -> nn.Module:
    """The model of the task with the checkpoint loaded, on the CPU."""
    model = nn.Sequential(
        nn.Conv2d(channels, 8, kernel_size=3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 16),
        nn.ReLU(),
        nn.Linear(16, classes),
    )
    model.load_state_dict(checkpoint)
    return model


checks = [
    structure(
        reference,
        advice="Build the layers in the order of the task, in one nn.Sequential, and return the model itself.",
    ),
    placement(
        outputs="device",
        why="A layer whose state is elsewhere raises at the first batch, or computes with stale statistics.",
        advice="model.to(device) moves parameters and buffers of all layers at once.",
    ),
    parity(
        reference,
        why="A model without its checkpoint has random weights.",
        advice="model.load_state_dict(checkpoint) copies the values into the model, wherever the model is.",
    ),
]

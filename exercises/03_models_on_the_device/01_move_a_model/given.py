"""A checkpoint of a small image classifier, on the CPU."""

from __future__ import annotations

from typing import Any

import torch

SIZES = ((3, 10), (5, 7), (4, 1))
"""Channels and classes for each case."""


def draw(seed: int, case: int) -> dict[str, Any]:
    """The state of a trained network: parameters and running statistics."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    channels, classes = SIZES[case]
    shapes = {
        "0.weight": (8, channels, 3, 3),
        "0.bias": (8,),
        "1.weight": (8,),
        "1.bias": (8,),
        "1.running_mean": (8,),
        "1.running_var": (8,),
        "5.weight": (16, 8),
        "5.bias": (16,),
        "7.weight": (classes, 16),
        "7.bias": (classes,),
    }
    state = {name: torch.randn(shape, generator=chance) for name, shape in shapes.items()}
    state["1.running_var"] = state["1.running_var"].square() + 0.1
    state["1.num_batches_tracked"] = torch.tensor(100 + seed % 900 + case)
    return {"checkpoint": state, "channels": channels, "classes": classes}


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Add the device. The checkpoint stays on the CPU."""
    return {**drawn, "device": device}

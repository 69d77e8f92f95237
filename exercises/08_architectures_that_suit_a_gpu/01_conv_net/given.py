"""A trained image network's weights, and images of a size that it was trained for."""

from __future__ import annotations

from typing import Any

import torch

SIZES = (
    {"images": 6, "channels": 3, "height": 16, "width": 16, "classes": 10, "features": 16 * 3 * 3},
    {"images": 5, "channels": 1, "height": 13, "width": 22, "classes": 7, "features": 16 * 2 * 4},
    {"images": 1, "channels": 4, "height": 10, "width": 11, "classes": 3, "features": 16 * 1 * 1},
    {"images": 3, "channels": 2, "height": 15, "width": 9, "classes": 5, "features": 16 * 2 * 1},
)


def draw(seed: int, case: int) -> dict[str, Any]:
    """Weights of a usual size, statistics of a trained normalization, images with negative values."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    size = SIZES[case]
    channels, classes, features = size["channels"], size["classes"], size["features"]
    shapes = {
        "0.weight": (8, channels, 3, 3),
        "0.bias": (8,),
        "1.weight": (8,),
        "1.bias": (8,),
        "1.running_mean": (8,),
        "1.running_var": (8,),
        "4.weight": (16, 8, 3, 3),
        "4.bias": (16,),
        "8.weight": (classes, features),
        "8.bias": (classes,),
    }
    weights = {name: 0.5 * torch.randn(shape, generator=chance) for name, shape in shapes.items()}
    weights["1.running_var"] = weights["1.running_var"].square() + 0.5
    weights["1.num_batches_tracked"] = torch.tensor(200 + seed % 900 + case)
    images = torch.randn(size["images"], channels, size["height"], size["width"], generator=chance)
    return {"weights": weights, "images": images, "classes": classes}


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Everything is on the CPU, as a file and a data set give it."""
    return {**drawn, "device": device}

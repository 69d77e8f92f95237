"""A network's first weights, and images of stripes: the class is their direction."""

from __future__ import annotations

import math
from typing import Any

import torch

SIZES = (
    {"images": 12, "height": 10, "width": 10, "classes": 4, "epochs": 1, "batch_size": 4},
    {"images": 5, "height": 9, "width": 7, "classes": 3, "epochs": 2, "batch_size": 3},
    {"images": 1, "height": 8, "width": 6, "classes": 2, "epochs": 2, "batch_size": 4},
)


def draw(seed: int, case: int) -> dict[str, Any]:
    """Stripes with noise; each image has a phase of its own."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    size = SIZES[case]
    count, height, width, classes = size["images"], size["height"], size["width"], size["classes"]
    shapes = {
        "0.weight": (8, 3, 3, 3),
        "0.bias": (8,),
        "3.weight": (16, 8, 3, 3),
        "3.bias": (16,),
        "7.weight": (classes, 16),
        "7.bias": (classes,),
    }
    weights = {name: 0.3 * torch.randn(shape, generator=chance) for name, shape in shapes.items()}
    labels = torch.randint(classes, (count,), generator=chance)
    angles = (labels * math.pi / classes).view(-1, 1, 1, 1)
    phases = 2 * math.pi * torch.rand(count, 3, 1, 1, generator=chance)
    rows, columns = torch.arange(height).view(1, 1, -1, 1), torch.arange(width).view(1, 1, 1, -1)
    stripes = (1.3 * (rows * angles.sin() + columns * angles.cos()) + phases).sin()
    noise = torch.randn(count, 3, height, width, generator=chance)
    images = (127 + 80 * stripes + 30 * noise).clamp(0, 255).to(torch.uint8)
    schedule = {name: size[name] for name in ("epochs", "batch_size")}
    return {"weights": weights, "images": images, "labels": labels, **schedule}


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Everything is on the CPU, as files give it."""
    return {**drawn, "device": device}

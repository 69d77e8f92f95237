"""Three kinds of networks, of sizes drawn at random: what costs most differs from one to the next."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class Positions(nn.Module):
    """Attention of each position to all others, with one head and no projections."""

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        weights = torch.softmax(features @ features.transpose(1, 2) / features.shape[-1] ** 0.5, dim=-1)
        return weights @ features


ACTIVATIONS = (nn.GELU, nn.Tanh, nn.Sigmoid, nn.ReLU, nn.SiLU)


def network(kind: str, width: int, repeats: list[int]) -> nn.Sequential:
    """A network of one of three kinds; its weights do not matter. `repeats` has a number for each of `ACTIVATIONS`."""
    between = [make() for make, times in zip(ACTIVATIONS, repeats, strict=True) for _ in range(times)]
    match kind:
        case "dense":
            return nn.Sequential(nn.Linear(64, width), *between, nn.LayerNorm(width), nn.Linear(width, 1))
        case "images":
            layers = (nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), *between, nn.MaxPool2d(2))
            return nn.Sequential(*layers, nn.Flatten())
        case _:
            return nn.Sequential(nn.Linear(8, width), Positions(), *between, nn.Linear(width, 1))


KINDS = ("dense", "images", "positions")


def draw(seed: int, case: int) -> dict[str, Any]:
    """The kind, a width, how often each activation occurs, and a batch."""
    chance = torch.Generator().manual_seed(seed * 10 + case)

    def size(least: int, most: int) -> int:
        return int(torch.randint(least, most + 1, (), generator=chance))

    match KINDS[case]:
        case "dense":
            width, shape = size(300, 900), (size(100, 600), 64)
        case "images":
            width, shape = size(2, 12), (size(1, 9), 3, size(30, 90), 61)
        case _:
            width, shape = size(8, 40), (size(3, 20), size(60, 200), 8)
    repeats = torch.randint(0, 4, (len(ACTIVATIONS),), generator=chance).tolist()
    batch = torch.randn(shape, generator=chance)
    return {"kind": KINDS[case], "width": width, "repeats": repeats, "batch": batch}


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """The model and the batch, on the device."""
    model = network(drawn["kind"], drawn["width"], drawn["repeats"])
    return {"model": model.to(device), "batch": drawn["batch"].to(device)}

"""A model limited by memory traffic, of random size: two layers and a wide middle."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

POOL = 1024


class Repeat(nn.Module):
    """Repeats the features, so that there are many of them."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return features.repeat(1, self.times)


def draw(seed: int, case: int) -> dict[str, Any]:
    """Sizes, weights, a batch and its targets; 5 to 8 million activations."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    rows = (64, 51, 48)[case] + int(torch.randint(0, 8, (), generator=chance))
    times = 128 * int(torch.randint(12, 16, (), generator=chance))
    outputs = (8, 5, 1)[case]
    pooled = 64 * times // POOL
    state = {
        "0.weight": torch.randn(64, 8, generator=chance),
        "0.bias": torch.randn(64, generator=chance),
        "4.weight": torch.randn(outputs, pooled, generator=chance) / pooled**0.5,
        "4.bias": torch.randn(outputs, generator=chance),
    }
    batch, target = torch.randn(rows, 8, generator=chance), torch.randn(rows, outputs, generator=chance)
    return {"model": state, "times": times, "batch": batch, "target": target}


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """The model and its data, on the device."""
    outputs, pooled = drawn["model"]["4.weight"].shape
    layers = (nn.Linear(8, 64), Repeat(drawn["times"]), nn.ReLU(), nn.AvgPool1d(POOL), nn.Linear(pooled, outputs))
    model = nn.Sequential(*layers)
    model.load_state_dict(drawn["model"])
    return {"model": model.to(device), "batch": drawn["batch"].to(device), "target": drawn["target"].to(device)}

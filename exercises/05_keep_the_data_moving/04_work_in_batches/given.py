"""A small network on the device, and samples in host memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

SIZES = (
    {"samples": 150, "batch_size": 16, "features": 64, "hidden": 128, "classes": 3},
    {"samples": 61, "batch_size": 20, "features": 33, "hidden": 65, "classes": 5},
    {"samples": 1, "batch_size": 16, "features": 9, "hidden": 24, "classes": 2},
)


def draw(seed: int, case: int) -> dict[str, Any]:
    """Weights and samples; the last batch is not full."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    sizes = SIZES[case]
    features, hidden, classes = sizes["features"], sizes["hidden"], sizes["classes"]
    return {
        "state": {
            "0.weight": torch.randn(hidden, features, generator=chance) / features**0.5,
            "0.bias": torch.randn(hidden, generator=chance),
            "2.weight": torch.randn(classes, hidden, generator=chance) / hidden**0.5,
            "2.bias": torch.randn(classes, generator=chance),
        },
        "samples": torch.randn(sizes["samples"], features, generator=chance),
        "batch_size": sizes["batch_size"],
    }


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """The network is on the device and in evaluation mode."""
    state = drawn["state"]
    model = nn.Sequential(
        nn.Linear(*reversed(state["0.weight"].shape)), nn.ReLU(), nn.Linear(*reversed(state["2.weight"].shape))
    )
    model.load_state_dict(state)
    return {"model": model.to(device).eval(), "samples": drawn["samples"], "batch_size": drawn["batch_size"]}

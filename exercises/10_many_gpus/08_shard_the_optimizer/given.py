"""The weights of deep networks, equal in all ranks, and each rank's share of the data on its GPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

RANKS, STEPS = 2, 3
CASES = (
    {"layers": 4, "width": 192, "rows": 4},
    {"layers": 8, "width": 128, "rows": 2},
    {"layers": 6, "width": 160, "rows": 1},
)
"""Even numbers of equal layers: they divide into halves. Weights are large against a batch's activations."""


def draw(seed: int, case: int) -> dict[str, Any]:
    """Weights that keep activations at their size; inputs and targets of (ranks, steps, rows, width)."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    chosen = CASES[case]
    width = chosen["width"]
    weights = {}
    for layer in range(chosen["layers"]):
        weights[f"{2 * layer}.weight"] = torch.randn(width, width, generator=chance) * (1.2 / width**0.5)
        weights[f"{2 * layer}.bias"] = torch.randn(width, generator=chance) / 4
    shape = (RANKS, STEPS, chosen["rows"], width)
    return {
        "weights": weights,
        "inputs": torch.randn(*shape, generator=chance),
        "targets": 20 * torch.randn(*shape, generator=chance),
    }


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """The network on the CPU, and the share of the rank whose GPU this is, on that GPU."""
    rank = device.index or 0
    width = drawn["inputs"].shape[-1]
    layers: list[nn.Module] = []
    for _ in range(len(drawn["weights"]) // 2):
        layers += [nn.Linear(width, width), nn.Tanh()]
    model = nn.Sequential(*layers)
    model.load_state_dict(drawn["weights"])
    return {
        "model": model,
        "inputs": drawn["inputs"][rank].to(device),
        "targets": drawn["targets"][rank].to(device),
    }

"""The weights of deep networks, equal in all ranks, and each rank's share of the data on its GPU."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import nn

RANKS, STEPS = 2, 2
CASES = (
    {"layers": 12, "width": 144, "rows": 3},
    {"layers": 14, "width": 96, "rows": 2},
    {"layers": 12, "width": 128, "rows": 1},
)
"""Widths divide by two, so the ranks hold equal parts. Weights are large against a batch's activations."""


def draw(seed: int, case: int) -> dict[str, Any]:
    """Weights with which signals keep their size; inputs and targets of (ranks, steps, rows, width)."""
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
        "targets": torch.randn(*shape, generator=chance),
    }


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """A function that makes the network, and the share of the rank whose GPU this is, on that GPU."""
    rank = device.index or 0
    return {
        "make_model": partial(network, drawn["weights"]),
        "inputs": drawn["inputs"][rank].to(device),
        "targets": drawn["targets"][rank].to(device),
    }


def network(weights: dict[str, torch.Tensor]) -> nn.Sequential:
    """Layers with these weights, on the CPU."""
    width = len(weights["0.bias"])
    layers: list[nn.Module] = []
    for _ in range(len(weights) // 2):
        layers += [nn.Linear(width, width), nn.Tanh()]
    model = nn.Sequential(*layers)
    model.load_state_dict(weights)
    return model

"""The weights of a small network, equal in all ranks, and each rank's share of the data on its GPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

RANKS = 2
HIDDEN = 16
CASES = (
    {"steps": 3, "parts": 4, "rows": 5, "features": 6, "outputs": 3},
    {"steps": 2, "parts": 3, "rows": 1, "features": 9, "outputs": 2},
    {"steps": 4, "parts": 1, "rows": 7, "features": 4, "outputs": 1},
)
"""Cases. The last has a single part: nothing is added up, and each backward pass has to average."""


def draw(seed: int, case: int) -> dict[str, Any]:
    """Weights as after some training; inputs and targets of (ranks, steps, parts, rows, …), of both signs."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    chosen = CASES[case]
    features, outputs = chosen["features"], chosen["outputs"]
    shape = (RANKS, chosen["steps"], chosen["parts"], chosen["rows"])
    weights = {
        "0.weight": torch.randn(HIDDEN, features, generator=chance) / features**0.5,
        "0.bias": torch.randn(HIDDEN, generator=chance) / 4,
        "2.weight": torch.randn(outputs, HIDDEN, generator=chance) / HIDDEN**0.5,
        "2.bias": torch.randn(outputs, generator=chance) / 4,
    }
    return {
        "weights": weights,
        "inputs": torch.randn(*shape, features, generator=chance),
        "targets": torch.randn(*shape, outputs, generator=chance),
    }


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """The network on the CPU, and the share of the rank whose GPU this is, on that GPU."""
    rank = device.index or 0
    outputs, features = drawn["targets"].shape[-1], drawn["inputs"].shape[-1]
    model = nn.Sequential(nn.Linear(features, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, outputs))
    model.load_state_dict(drawn["weights"])
    return {
        "model": model,
        "inputs": drawn["inputs"][rank].to(device),
        "targets": drawn["targets"][rank].to(device),
    }

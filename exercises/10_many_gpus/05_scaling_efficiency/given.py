"""A network on the CPU, and rows of random numbers on each rank's GPU, so that no time is known in advance."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

RANKS = 2
SIZES = ((600, 200, 300, 150), (96, 40, 64, 30), (30, 90, 50, 20))
"""The least rows, features, hidden size and outputs. The first network keeps slow GPUs busy, the others do not."""


def draw(seed: int, case: int) -> dict[str, Any]:
    """Draw in double precision, which a T4 computes slowly: a small network keeps it busy for a millisecond."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    rows, features, hidden, outputs = SIZES[case]
    rows += 2 * int(torch.randint(20, (1,), generator=chance))
    double = {"generator": chance, "dtype": torch.float64}
    weights = {
        "0.weight": torch.randn(hidden, features, **double) / features**0.5,
        "0.bias": torch.randn(hidden, **double) / 4,
        "2.weight": torch.randn(outputs, hidden, **double) / hidden**0.5,
        "2.bias": torch.randn(outputs, **double) / 4,
    }
    return {
        "weights": weights,
        "inputs": torch.randn(RANKS, rows, features, **double),
        "targets": torch.randn(RANKS, rows, outputs, **double),
    }


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """The network on the CPU, and the rows of the rank whose GPU this is, on that GPU."""
    rank = device.index or 0
    hidden, features = drawn["weights"]["0.weight"].shape
    outputs = len(drawn["weights"]["2.bias"])
    model = nn.Sequential(nn.Linear(features, hidden), nn.Tanh(), nn.Linear(hidden, outputs)).double()
    model.load_state_dict(drawn["weights"])
    return {
        "model": model,
        "inputs": drawn["inputs"][rank].to(device),
        "targets": drawn["targets"][rank].to(device),
    }

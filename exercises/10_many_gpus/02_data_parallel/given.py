"""The weights of a small network, a batch and its targets, all on the CPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

HIDDEN = 24
SIZES = ((12, 6, 3), (13, 5, 2), (1, 7, 4))
"""Rows of the batch, features, outputs for each case."""


def draw(seed: int, case: int) -> dict[str, Any]:
    """Weights as after some training; targets of both signs, some of them large."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    rows, features, outputs = SIZES[case]
    weights = {
        "0.weight": torch.randn(HIDDEN, features, generator=chance) / features**0.5,
        "0.bias": torch.randn(HIDDEN, generator=chance) / 4,
        "2.weight": torch.randn(outputs, HIDDEN, generator=chance) / HIDDEN**0.5,
        "2.bias": torch.randn(outputs, generator=chance) / 4,
    }
    batch = torch.randn(rows, features, generator=chance)
    targets = 3 * torch.randn(rows, outputs, generator=chance)
    return {"weights": weights, "batch": batch, "targets": targets}


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """The network with its weights, and all data, on the CPU; and the device to use."""
    batch, targets = drawn["batch"], drawn["targets"]
    model = nn.Sequential(
        nn.Linear(batch.shape[1], HIDDEN),
        nn.ReLU(),
        nn.Linear(HIDDEN, targets.shape[1]),
    )
    model.load_state_dict(drawn["weights"])
    return {"model": model, "batch": batch, "targets": targets, "device": device}

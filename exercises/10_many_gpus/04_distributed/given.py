"""The weights of a small network, and a data set on the CPU: the same in all ranks."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

HIDDEN = 6
CASES = (
    {"rows": 24, "features": 4, "outputs": 2, "batch_size": 4, "epochs": 2},
    {"rows": 13, "features": 3, "outputs": 1, "batch_size": 3, "epochs": 3},
    {"rows": 5, "features": 1, "outputs": 3, "batch_size": 1, "epochs": 2},
)
"""13 and 5 rows cannot be halved: the sampler takes one of them twice."""


def draw(seed: int, case: int) -> dict[str, Any]:
    """Weights as after some training, inputs and targets of both signs."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    chosen = CASES[case]
    features, outputs = chosen["features"], chosen["outputs"]
    weights = {
        "0.weight": torch.randn(HIDDEN, features, generator=chance) / features**0.5,
        "0.bias": torch.randn(HIDDEN, generator=chance) / 4,
        "2.weight": torch.randn(outputs, HIDDEN, generator=chance) / HIDDEN**0.5,
        "2.bias": torch.randn(outputs, generator=chance) / 4,
    }
    return {
        "weights": weights,
        "inputs": torch.randn(chosen["rows"], features, generator=chance),
        "targets": torch.randn(chosen["rows"], outputs, generator=chance),
        "batch_size": chosen["batch_size"],
        "epochs": chosen["epochs"],
    }


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """The network with its weights and the data set, on the CPU. Ranks find out their GPU by themselves."""
    inputs, targets = drawn["inputs"], drawn["targets"]
    model = nn.Sequential(
        nn.Linear(inputs.shape[1], HIDDEN),
        nn.Tanh(),
        nn.Linear(HIDDEN, targets.shape[1]),
    )
    model.load_state_dict(drawn["weights"])
    return {
        "model": model,
        "dataset": torch.utils.data.TensorDataset(inputs, targets),
        "batch_size": drawn["batch_size"],
        "epochs": drawn["epochs"],
    }

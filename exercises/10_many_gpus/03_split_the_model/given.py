"""Weights of networks of several layers; the first network has 4 MiB of them, and gradients as large."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import nn

CASES = (
    {"rows": 8, "widths": (512, 512, 512, 512, 512), "cut": 4},
    {"rows": 13, "widths": (7, 33, 17, 11, 3), "cut": 2},
    {"rows": 1, "widths": (9, 12, 6, 5), "cut": 3},
)
"""A matrix of 512 by 512 has 1 MiB: with its gradients, the first model and its biases do not fit into 8 MiB."""


def draw(seed: int, case: int) -> dict[str, Any]:
    """Weights by name, and where the model is cut."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    chosen: dict[str, Any] = dict(CASES[case])
    widths, rows = chosen["widths"], chosen["rows"]
    weights = {}
    for number, (inputs, outputs) in enumerate(pairwise(widths)):
        weights[f"{2 * number}.weight"] = torch.randn(outputs, inputs, generator=chance) * (2 / inputs) ** 0.5
        weights[f"{2 * number}.bias"] = torch.rand(outputs, generator=chance) / 4
    return {
        "weights": weights,
        "cut": chosen["cut"],
        "batch": torch.randn(rows, widths[0], generator=chance),
        "targets": torch.randn(rows, widths[-1], generator=chance),
    }


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """The model with its weights. All of it stays on the CPU."""
    layers: list[nn.Module] = []
    for name, weight in drawn["weights"].items():
        if name.endswith("weight"):
            layers += [*([nn.Tanh()] if layers else []), nn.Linear(weight.shape[1], weight.shape[0])]
    model = nn.Sequential(*layers)
    model.load_state_dict(drawn["weights"])
    return {"model": model, **{name: drawn[name] for name in ("cut", "batch", "targets")}}

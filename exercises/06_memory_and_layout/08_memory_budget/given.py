"""Models that differ in widths, activations and dtype, on the CPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

ACTIVATIONS = {"relu": nn.ReLU, "gelu": nn.GELU}
PLANS = (
    (("relu", "relu"), "float32", "momentum"),
    (("gelu", "relu", "gelu"), "float32", "adam"),
    (("gelu", "gelu"), "bfloat16", "momentum"),
    ((), "float64", "adam"),
    (("relu",), "float32", "sgd"),
)
"""Activations between the linear layers, dtype and optimizer, for each case."""


def draw(seed: int, case: int) -> dict[str, Any]:
    """Widths of the layers and the rows of a batch."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    activations, dtype, optimizer = PLANS[case]
    widths = torch.randint(150, 400, (len(activations) + 2,), generator=chance).tolist()
    if not activations:
        widths = [6, 10 * widths[1]]  # the biases are a seventh of the parameters
    rows = int(torch.randint(100, 300, (), generator=chance))
    return {
        "widths": widths,
        "activations": list(activations),
        "dtype": dtype,
        "rows": rows,
        "optimizer": optimizer,
    }


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """The model; its weights do not matter."""
    widths = drawn["widths"]
    layers: list[nn.Module] = [nn.Linear(widths[0], widths[1])]
    for name, inputs, outputs in zip(drawn["activations"], widths[1:], widths[2:], strict=False):
        layers += [ACTIVATIONS[name](), nn.Linear(inputs, outputs)]
    model = nn.Sequential(*layers).to(getattr(torch, drawn["dtype"]))
    return {"model": model, "rows": drawn["rows"], "optimizer": drawn["optimizer"]}

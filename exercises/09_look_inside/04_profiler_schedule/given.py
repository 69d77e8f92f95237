"""A model and its optimizer, and pairs of a batch and a target; each batch has another number of rows."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

SIZES = ((6, 12, 8, 3), (9, 7, 5, 2), (5, 9, 1, 1))
"""Steps, rows of the first batch, features and outputs for each case."""
FILE = "trace.json"
LEARNING_RATE = 0.1


def draw(seed: int, case: int) -> dict[str, Any]:
    """The model's values and the pairs. Each batch has one row more than the last, so its bytes identify its step."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    steps, rows, features, outputs = SIZES[case]
    rows += int(torch.randint(0, 4, (), generator=chance))
    state = {
        "weight": torch.randn(outputs, features, generator=chance),
        "bias": torch.randn(outputs, generator=chance),
    }
    loader = [
        (torch.randn(rows + step, features, generator=chance), torch.randn(rows + step, outputs, generator=chance))
        for step in range(steps)
    ]
    return {"model": state, "loader": loader, "trace_file": FILE}


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """The model on the device, an optimizer for it, and the pairs on the CPU."""
    outputs, features = drawn["model"]["weight"].shape
    model = nn.Linear(features, outputs)
    model.load_state_dict(drawn["model"])
    model = model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    return {**drawn, "model": model, "optimizer": optimizer}

"""A small classifier in training mode, and a batch: each of them on the CPU or on the device."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

PLACES = (("device", "cpu"), ("device", "device"), ("cpu", "device"), ("cpu", "cpu"))
"""Places of the model and of the batch, for each case."""
SIZES = ((512, 8, 5), (7, 3, 4), (1, 5, 2), (12, 6, 3))
"""Rows, features and classes for each case."""
HIDDEN = 12


def draw(seed: int, case: int) -> dict[str, Any]:
    """The state of a trained classifier, and a batch whose features are not centered."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    rows, features, classes = SIZES[case]
    model_place, batch_place = PLACES[case]
    shapes = {
        "0.weight": (HIDDEN, features),
        "0.bias": (HIDDEN,),
        "1.weight": (HIDDEN,),
        "1.bias": (HIDDEN,),
        "1.running_mean": (HIDDEN,),
        "1.running_var": (HIDDEN,),
        "4.weight": (classes, HIDDEN),
        "4.bias": (classes,),
    }
    state = {name: 0.5 * torch.randn(shape, generator=chance) for name, shape in shapes.items()}
    state["1.weight"] += 1
    state["1.running_var"] = state["1.running_var"].square() + 0.5
    state["1.num_batches_tracked"] = torch.tensor(50 + seed % 900 + case)
    return {
        "state": state,
        "batch": torch.randn(rows, features, generator=chance) + 0.5,
        "model_place": model_place,
        "batch_place": batch_place,
    }


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Return the model in training mode, as after its last epoch, and the batch, each in its place."""
    classes, hidden = drawn["state"]["4.weight"].shape
    model = nn.Sequential(
        nn.Linear(drawn["batch"].shape[1], hidden),
        nn.BatchNorm1d(hidden),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(hidden, classes),
    )
    model.load_state_dict(drawn["state"])
    return {
        "model": model.to(device) if drawn["model_place"] == "device" else model,
        "batch": drawn["batch"].to(device) if drawn["batch_place"] == "device" else drawn["batch"],
    }

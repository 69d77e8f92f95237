"""A batch and weights, each on the CPU or on the device already."""

from __future__ import annotations

from typing import Any

import torch

PLACES = (("cpu", "device"), ("device", "device"), ("cpu", "cpu"), ("device", "cpu"))
"""Places of the batch and of the weights, for each case."""

SHAPES = ((32, 16, 8), (7, 5, 3), (1, 9, 4), (6, 11, 1))


def draw(seed: int, case: int) -> dict[str, Any]:
    """Return two positive tensors, so that no sum cancels, and where each of them belongs."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    rows, inner, columns = SHAPES[case]
    batch_place, weights_place = PLACES[case]
    return {
        "batch": torch.rand(rows, inner, generator=chance),
        "weights": torch.rand(inner, columns, generator=chance),
        "batch_place": batch_place,
        "weights_place": weights_place,
    }


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Put both tensors where they belong, and add the device."""
    return {
        "batch": drawn["batch"].to(device) if drawn["batch_place"] == "device" else drawn["batch"],
        "weights": drawn["weights"].to(device) if drawn["weights_place"] == "device" else drawn["weights"],
        "device": device,
    }

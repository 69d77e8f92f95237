"""A data set of small pictures in host memory."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import TensorDataset

SIZES = ((26, 8, 12, 10), (15, 4, 7, 9), (5, 1, 5, 1))
"""Pictures, how many are in a batch, height and width, for each case."""


def draw(seed: int, case: int) -> dict[str, Any]:
    """Pictures as bytes, labels, and how to load them. No workers: to start them takes longer than all the rest."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    count, batch_size, height, width = SIZES[case]
    return {
        "pictures": torch.randint(0, 256, (count, 3, height, width), generator=chance, dtype=torch.uint8),
        "labels": torch.randint(0, 1000, (count,), generator=chance),
        "batch_size": batch_size,
        "workers": 0,
    }


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """The data set stays in host memory."""
    dataset = TensorDataset(drawn["pictures"], drawn["labels"])
    return {"dataset": dataset, "batch_size": drawn["batch_size"], "workers": drawn["workers"], "device": device}

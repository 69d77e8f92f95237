"""A data set of small pictures in host memory."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import Dataset

SIZES = ((26, 8, 12, 10), (15, 4, 7, 9), (5, 1, 5, 1))
"""Pictures, how many are in a batch, height and width, for each case."""


class Pictures(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Pairs of a picture and its label."""

    def __init__(self, pictures: torch.Tensor, labels: torch.Tensor) -> None:
        self._pictures, self._labels = pictures, labels

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self._pictures[index], self._labels[index]


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
    dataset = Pictures(drawn["pictures"], drawn["labels"])
    return {"dataset": dataset, "batch_size": drawn["batch_size"], "workers": drawn["workers"], "device": device}

"""A data set of small pictures in host memory, which marks each read of a sample in the trace."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import torch
from torch.utils.data import Dataset

SIZES = ((26, 8, 12, 10), (15, 4, 7, 9), (5, 1, 5, 1))
"""Pictures, how many are in a batch, height and width, for each case."""

LOADER = "torch.utils.data._utils.fetch"
"""The module whose functions read the data set for every `DataLoader`, whatever collates the samples."""


class Pictures(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Pairs of a picture and its label. No attribute gives access to them, so every read leaves a mark in the trace."""

    def __init__(self, pictures: torch.Tensor, labels: torch.Tensor) -> None:
        def read(index: Any) -> tuple[torch.Tensor, torch.Tensor]:
            picture, label = pictures[index], labels[index]
            name = "sample read by a DataLoader" if loader_asks() else "sample read by hand"
            for _ in range(label.numel()):  # several, where `index` is a list
                torch.cuda.nvtx.mark(name)
            return picture, label

        self._read, self._count = read, len(labels)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: Any) -> tuple[torch.Tensor, torch.Tensor]:
        return self._read(index)


def loader_asks() -> bool:
    """True if a `DataLoader` is among the callers."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_globals.get("__name__") != LOADER:
        frame = frame.f_back
    return frame is not None


def draw(seed: int, case: int) -> dict[str, Any]:
    """Pictures as bytes, labels, and how to load them. No workers: starting them takes longer than everything else."""
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

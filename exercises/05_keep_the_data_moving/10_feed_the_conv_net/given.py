"""Pictures that take a while to read, and a small conv net on the device."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import nn
from torch.utils.data import Dataset

SIZES = ((40, 8, 24, 20, 5), (45, 10, 20, 24, 3), (26, 4, 25, 25, 4))
"""Pictures, how many are in a batch, height, width and classes, for each case."""
READ_S = 0.5e-3
"""Seconds to read a picture: ten times as long as a GPU computes with it. On the virtual clock, sleep does not wait."""
FILTERS = 16
WORKERS = 2


class Pictures(Dataset[torch.Tensor]):
    """Pictures in host memory that are read one by one."""

    def __init__(self, pictures: torch.Tensor) -> None:
        self._pictures = pictures

    def __len__(self) -> int:
        return len(self._pictures)

    def __getitem__(self, index: int) -> torch.Tensor:
        if not 0 <= index < len(self._pictures):
            raise IndexError(f"there is no picture {index}")
        time.sleep(READ_S)
        return self._pictures[index].clone()


def draw(seed: int, case: int) -> dict[str, Any]:
    """Pictures as bytes, and the weights of the network."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    count, batch_size, height, width, classes = SIZES[case]
    return {
        "pictures": torch.randint(0, 256, (count, 3, height, width), generator=chance, dtype=torch.uint8),
        "weights": {
            "0.weight": torch.randn(FILTERS, 3, 3, 3, generator=chance) / 27**0.5,
            "0.bias": torch.randn(FILTERS, generator=chance) / 4,
            "2.weight": torch.randn(FILTERS, FILTERS, 3, 3, generator=chance) / (9 * FILTERS) ** 0.5,
            "2.bias": torch.randn(FILTERS, generator=chance) / 4,
            "6.weight": torch.randn(classes, FILTERS, generator=chance) / FILTERS**0.5,
            "6.bias": torch.randn(classes, generator=chance) / 4,
        },
        "batch_size": batch_size,
        "workers": WORKERS,
    }


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """The network on the device; the pictures stay in host memory."""
    model = nn.Sequential(
        nn.Conv2d(3, FILTERS, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(FILTERS, FILTERS, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(FILTERS, len(drawn["weights"]["6.bias"])),
    )
    model.load_state_dict(drawn["weights"])
    return {
        "model": model.to(device).eval(),
        "dataset": Pictures(drawn["pictures"]),
        "batch_size": drawn["batch_size"],
        "workers": drawn["workers"],
        "device": device,
    }

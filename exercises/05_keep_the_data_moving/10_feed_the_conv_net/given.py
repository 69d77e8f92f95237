"""Pictures that take a while to read, and a small conv net on the device."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import nn
from torch.utils.data import Dataset

SIZES = ((40, 8, 24, 20, 5), (45, 10, 20, 24, 3), (26, 4, 25, 25, 4))
"""Pictures, how many are in a batch, height, width and classes, for each case."""
READING = 1.5
"""Time to read a batch, in times that the GPU needs for it: too long for one process, and not for two."""
FILTERS = 16
CONVOLUTIONS = 6
"""So many that reading a batch takes longer than the gaps that the check allows, on every GPU model."""
WORKERS = 2


class Pictures(Dataset[torch.Tensor]):
    """Pictures in host memory that are read one by one. On the virtual clock, sleep does not wait."""

    def __init__(self, pictures: torch.Tensor, seconds: float) -> None:
        self._pictures, self._seconds = pictures, seconds

    def __len__(self) -> int:
        return len(self._pictures)

    def __getitem__(self, index: int) -> torch.Tensor:
        if not 0 <= index < len(self._pictures):
            raise IndexError(f"there is no picture {index}")
        time.sleep(self._seconds)
        return self._pictures[index].clone()


def draw(seed: int, case: int) -> dict[str, Any]:
    """Pictures as bytes, and the weights of the network."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    count, batch_size, height, width, classes = SIZES[case]
    pictures = torch.randint(0, 256, (count, 3, height, width), generator=chance, dtype=torch.uint8)
    weights = {}
    for layer in range(CONVOLUTIONS):
        colors = FILTERS if layer else 3
        weights[f"{2 * layer}.weight"] = torch.randn(FILTERS, colors, 3, 3, generator=chance) / (4.5 * colors) ** 0.5
        weights[f"{2 * layer}.bias"] = torch.randn(FILTERS, generator=chance) / 4
    weights["last.weight"] = torch.randn(classes, FILTERS, generator=chance) / FILTERS**0.5
    weights["last.bias"] = torch.randn(classes, generator=chance) / 4
    return {"pictures": pictures, "weights": weights, "batch_size": batch_size, "workers": WORKERS}


def seconds_of(model: nn.Module, batch: torch.Tensor, device: torch.device) -> float:
    """Return the time of a batch on the device, after a first one to warm up."""
    start = 0.0
    for _ in range(2):
        torch.cuda.synchronize()
        start = time.perf_counter()
        with torch.inference_mode():
            model(batch.to(device).float() / 255)
        torch.cuda.synchronize()
    return time.perf_counter() - start


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """The network on the device; the pictures stay in host memory."""
    model = nn.Sequential()
    for layer in range(CONVOLUTIONS):
        model.append(nn.Conv2d(FILTERS if layer else 3, FILTERS, 3, padding=1)).append(nn.ReLU())
    model.append(nn.AdaptiveAvgPool2d(1)).append(nn.Flatten())
    model.add_module("last", nn.Linear(FILTERS, len(drawn["weights"]["last.bias"])))
    model.load_state_dict(drawn["weights"])
    model.to(device).eval()
    pictures, batch_size = drawn["pictures"], drawn["batch_size"]
    reading_s = READING * seconds_of(model, pictures[:batch_size], device)
    return {
        "model": model,
        "dataset": Pictures(pictures, reading_s / batch_size),
        "batch_size": batch_size,
        "workers": drawn["workers"],
        "device": device,
    }

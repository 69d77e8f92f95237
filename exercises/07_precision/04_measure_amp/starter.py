"""Measure AMP: time and peak memory, with autocast and without."""

from typing import Any

import torch
from torch import nn


def measure_amp(
    model: nn.Module, batch: torch.Tensor, target: torch.Tensor
) -> dict[str, Any]:
    """A step in float32 and under autocast: time, peak, gain."""
    # TODO: warm up, wait, read the clock and the meters, once without
    # and once with autocast.
    wide = {"seconds": 0.0, "peak_bytes": 0}
    narrow = {"seconds": 0.0, "peak_bytes": 0}
    return {
        "float32": wide,
        "autocast": narrow,
        "speed_up": 1.0,
        "saved": 0.0,
    }


if __name__ == "__main__":
    if torch.cuda.is_available():
        model = nn.Sequential(
            nn.Linear(512, 4096), nn.ReLU(), nn.Linear(4096, 512)
        ).to("cuda")
        batch = torch.randn(1024, 512, device="cuda")
        target = torch.randn(1024, 512, device="cuda")
        figures = measure_amp(model, batch, target)
        for name, figure in figures.items():
            print(f"{name:9} {figure}")
    else:
        print("This measures a CUDA GPU, and there is none here.")

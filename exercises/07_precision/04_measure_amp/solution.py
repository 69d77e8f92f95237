"""Measure AMP: time and peak memory, with autocast and without."""

import time
from typing import Any

import torch
from torch import nn


def step(
    model: nn.Module,
    batch: torch.Tensor,
    target: torch.Tensor,
    in_half: bool,
) -> None:
    """Forward, loss and backward; the gradients are dropped."""
    with torch.autocast("cuda", dtype=torch.float16, enabled=in_half):
        loss = nn.functional.mse_loss(model(batch), target)
    loss.backward()
    model.zero_grad()


def measure(
    model: nn.Module,
    batch: torch.Tensor,
    target: torch.Tensor,
    in_half: bool,
) -> dict[str, Any]:
    """Seconds of one warm step, and the most bytes allocated in it.

    The step is over when the GPU is done.
    """
    step(model, batch, target, in_half)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    step(model, batch, target, in_half)
    torch.cuda.synchronize()
    return {
        "seconds": time.perf_counter() - start,
        "peak_bytes": torch.cuda.max_memory_allocated(),
    }


def measure_amp(
    model: nn.Module, batch: torch.Tensor, target: torch.Tensor
) -> dict[str, Any]:
    """A step in float32 and under autocast: time, peak, gain."""
    wide = measure(model, batch, target, in_half=False)
    narrow = measure(model, batch, target, in_half=True)
    return {
        "float32": wide,
        "autocast": narrow,
        "speed_up": wide["seconds"] / narrow["seconds"],
        "saved": 1 - narrow["peak_bytes"] / wide["peak_bytes"],
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

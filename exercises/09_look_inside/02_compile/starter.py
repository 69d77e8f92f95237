"""Compile: the price of the first call, and what later calls take."""

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn


def seconds_for(work: Callable[[], Any]) -> float:
    """Seconds of `work`, from an idle GPU until it is idle again."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def compile_and_time(
    model: nn.Module, traced: nn.Module, batch: torch.Tensor, repeats: int
) -> dict[str, Any]:
    """Return the compiled model's output for `batch`, and four times.

    The times are seconds: of the first compiled call, of a later one,
    of a call of the model itself, and of a call of the traced model.
    """
    # TODO: compile once; time the first call, then warm calls of all.
    return {
        "output": model(batch),
        "first_seconds": 0.0,
        "seconds": 0.0,
        "eager_seconds": 0.0,
        "traced_seconds": 0.0,
    }


if __name__ == "__main__":
    if torch.cuda.is_available():
        model = nn.Sequential(
            nn.Linear(256, 4096), nn.GELU(), nn.Linear(4096, 16)
        )
        model.to("cuda").requires_grad_(False)
        batch = torch.randn(4096, 256, device="cuda")
        traced = torch.jit.trace(model, batch)
        figures = compile_and_time(model, traced, batch, repeats=20)
        print("output", tuple(figures.pop("output").shape))
        for name, seconds in figures.items():
            print(f"{name} {seconds * 1e3:.3f} ms")
    else:
        print("This times a CUDA GPU, and there is none here.")

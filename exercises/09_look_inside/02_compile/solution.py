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
    compiled = torch.compile(model)
    first_s = seconds_for(lambda: compiled(batch))
    calls = range(repeats)
    compiled_s = seconds_for(lambda: [compiled(batch) for _ in calls])
    model(batch)
    eager_s = seconds_for(lambda: [model(batch) for _ in calls])
    for _ in range(2):  # TorchScript optimizes in its first two calls.
        traced(batch)
    traced_s = seconds_for(lambda: [traced(batch) for _ in calls])
    return {
        "output": compiled(batch),
        "first_seconds": first_s,
        "seconds": compiled_s / repeats,
        "eager_seconds": eager_s / repeats,
        "traced_seconds": traced_s / repeats,
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

"""Compile: what a compiled model takes per call, and what its first call takes."""

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn


def seconds_for(work: Callable[[], Any]) -> float:
    """Seconds that `work` takes, from an idle GPU until the GPU is idle again."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def compile_and_time(model: nn.Module, batch: torch.Tensor, repeats: int) -> dict[str, Any]:
    """The compiled model's output for `batch`, and seconds: of its first call, and per call with and without."""
    compiled = torch.compile(model)
    first_s = seconds_for(lambda: compiled(batch))
    compiled_s = seconds_for(lambda: [compiled(batch) for _ in range(repeats)]) / repeats
    model(batch)
    eager_s = seconds_for(lambda: [model(batch) for _ in range(repeats)]) / repeats
    return {"output": compiled(batch), "first_seconds": first_s, "seconds": compiled_s, "eager_seconds": eager_s}


if __name__ == "__main__":
    if torch.cuda.is_available():
        model = nn.Sequential(nn.Linear(256, 4096), nn.GELU(), nn.Linear(4096, 16)).to("cuda").requires_grad_(False)
        for name, figure in compile_and_time(model, torch.randn(4096, 256, device="cuda"), repeats=20).items():
            print(name, tuple(figure.shape) if name == "output" else f"{figure * 1e3:.3f} ms")
    else:
        print("This times a CUDA GPU, and there is none here.")

"""A model whose kernels take longer than their launches, and how often to time it."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import nn

POOL = 1024
PYTHON_S = 0.005
"""Seconds of Python in a call of the model itself, much longer than its kernels. So a time of the model cannot pass for
one of its trace. Plain Python takes no time on the virtual clock, but `sleep` does."""


class Repeat(nn.Module):
    """Repeats the features, so that there are many of them. A trace and the compiler leave the Python out."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        from torch.compiler import is_compiling  # here: the compiler cannot import this file to read its globals

        if not is_compiling():
            time.sleep(PYTHON_S)
        return features.repeat(1, self.times)


def draw(seed: int, case: int) -> dict[str, Any]:
    """Sizes, weights, a batch and a number of repeats. The task is the same for any of them."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    rows = (40, 33, 35)[case] + int(torch.randint(0, 9, (), generator=chance))
    times = 128 * int(torch.randint(9, 13, (), generator=chance))
    repeats, outputs = (3, 4, 5)[case], (8, 5, 1)[case]
    pooled = 64 * times // POOL
    state = {
        "0.weight": torch.randn(64, 8, generator=chance),
        "0.bias": torch.randn(64, generator=chance),
        "4.weight": torch.randn(outputs, pooled, generator=chance) / pooled**0.5,
        "4.bias": torch.randn(outputs, generator=chance),
    }
    return {"model": state, "times": times, "batch": torch.randn(rows, 8, generator=chance), "repeats": repeats}


def mark_calls(traced: nn.Module) -> nn.Module:
    """Mark each call of the traced model in the trace: its kernels are those of the model itself."""
    forward = traced.forward

    def marked(*inputs: torch.Tensor, **named: torch.Tensor) -> torch.Tensor:
        torch.cuda.nvtx.mark("call of the traced model")
        outputs: torch.Tensor = forward(*inputs, **named)
        return outputs

    traced.__dict__["forward"] = marked  # a script module refuses a usual assignment
    return traced


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """The model, its trace and a batch on the device. Tracing ran the model: its first product would cost more."""
    outputs, pooled = drawn["model"]["4.weight"].shape
    layers = (nn.Linear(8, 64), Repeat(drawn["times"]), nn.ReLU(), nn.AvgPool1d(POOL), nn.Linear(pooled, outputs))
    model = nn.Sequential(*layers)
    model.load_state_dict(drawn["model"])
    model.to(device).requires_grad_(False)
    batch = drawn["batch"].to(device)
    traced = mark_calls(torch.jit.trace(model, batch))
    return {"model": model, "traced": traced, "batch": batch, "repeats": drawn["repeats"]}

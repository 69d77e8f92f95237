# fails: structure
# Returns the speed-up as text instead of a number.
import time
from typing import Any

import torch
from torch import nn


def step(model: nn.Module, batch: torch.Tensor, target: torch.Tensor, in_half: bool) -> None:
    with torch.autocast("cuda", dtype=torch.float16, enabled=in_half):
        loss = nn.functional.mse_loss(model(batch), target)
    loss.backward()
    model.zero_grad()


def measure(model: nn.Module, batch: torch.Tensor, target: torch.Tensor, in_half: bool) -> dict[str, Any]:
    step(model, batch, target, in_half)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    step(model, batch, target, in_half)
    torch.cuda.synchronize()
    return {"seconds": time.perf_counter() - start, "peak_bytes": torch.cuda.max_memory_allocated()}


def measure_amp(model: nn.Module, batch: torch.Tensor, target: torch.Tensor) -> dict[str, Any]:
    wide = measure(model, batch, target, in_half=False)
    narrow = measure(model, batch, target, in_half=True)
    return {
        "float32": wide,
        "autocast": narrow,
        "speed_up": f"{wide['seconds'] / narrow['seconds']:.2f} x",
        "saved": 1 - narrow["peak_bytes"] / wide["peak_bytes"],
    }

# fails: eager
# Swaps the times of the model and of the traced model.
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn


def seconds_for(work: Callable[[], Any]) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def compile_and_time(model: nn.Module, traced: nn.Module, batch: torch.Tensor, repeats: int) -> dict[str, Any]:
    compiled = torch.compile(model)
    first_s = seconds_for(lambda: compiled(batch))
    compiled_s = seconds_for(lambda: [compiled(batch) for _ in range(repeats)]) / repeats
    model(batch)
    traced_s = seconds_for(lambda: [model(batch) for _ in range(repeats)]) / repeats
    seconds_for(lambda: [traced(batch) for _ in range(2)])
    eager_s = seconds_for(lambda: [traced(batch) for _ in range(repeats)]) / repeats
    return {
        "output": compiled(batch),
        "first_seconds": first_s,
        "seconds": compiled_s,
        "eager_seconds": eager_s,
        "traced_seconds": traced_s,
    }

# fails: top_three
# Sorts by the CPU time, which shows the cost of launches, not of kernels.
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile


def step(model: nn.Module, batch: torch.Tensor) -> None:
    model(batch).square().mean().backward()
    model.zero_grad()


def top_three(model: nn.Module, batch: torch.Tensor) -> list[str]:
    step(model, batch)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as prof:
        for _ in range(3):
            step(model, batch)
    operators = [row for row in prof.key_averages() if row.key.startswith("aten::")]
    operators.sort(key=lambda row: row.self_cpu_time_total, reverse=True)
    return [row.key for row in operators[:3]]

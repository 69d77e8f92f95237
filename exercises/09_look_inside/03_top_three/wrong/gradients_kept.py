# fails: after_call
# Leaves out zero_grad: the gradients of all steps add up and stay.
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile


def step(model: nn.Module, batch: torch.Tensor) -> None:
    """Forward, loss and backward; the gradients are dropped."""
    model(batch).square().mean().backward()


def top_three(model: nn.Module, batch: torch.Tensor) -> list[str]:
    """Return the three operators with the most GPU time in a step.

    Their self time counts; the costliest comes first.
    """
    step(model, batch)
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with profile(activities=activities) as prof:
        for _ in range(3):
            step(model, batch)
    operators = [row for row in prof.key_averages() if row.key.startswith("aten::")]
    operators.sort(key=lambda row: row.self_device_time_total, reverse=True)
    return [row.key for row in operators[:3]]

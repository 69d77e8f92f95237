"""Top three: which operators cost the GPU most."""

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile


def step(model: nn.Module, batch: torch.Tensor) -> None:
    """Forward, loss and backward; the gradients are dropped."""
    model(batch).square().mean().backward()
    model.zero_grad()


def top_three(model: nn.Module, batch: torch.Tensor) -> list[str]:
    """Return the three operators with the most GPU time in a step.

    Their self time counts; the costliest comes first.
    """
    step(model, batch)
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with profile(activities=activities) as prof:
        for _ in range(3):
            step(model, batch)
    operators = [
        row for row in prof.key_averages() if row.key.startswith("aten::")
    ]
    operators.sort(
        key=lambda row: row.self_device_time_total, reverse=True
    )
    return [row.key for row in operators[:3]]


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Sequential(
        nn.Linear(256, 1024),
        nn.GELU(),
        nn.LayerNorm(1024),
        nn.Linear(1024, 10),
    ).to(device)
    print(top_three(model, torch.randn(512, 256, device=device)))
    if device.type == "cpu":
        print("There is no GPU here, so no operator took GPU time.")

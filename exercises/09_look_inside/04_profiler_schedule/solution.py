"""Profiler schedule: record two typical steps, with named parts."""

from pathlib import Path

import torch
from torch import nn
from torch.profiler import (
    ProfilerActivity,
    profile,
    record_function,
    schedule,
)


def profile_steps(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    loader: list,
    trace_file: str,
) -> nn.Module:
    """Train the model on all pairs of `loader`, and return it.

    It writes a trace of the third and the fourth step.
    """
    device = next(model.parameters()).device
    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
        schedule=schedule(wait=1, warmup=1, active=2, repeat=1),
        on_trace_ready=lambda prof: prof.export_chrome_trace(trace_file),
    ) as prof:
        for batch, target in loader:
            with record_function("load"):
                batch, target = batch.to(device), target.to(device)
            with record_function("forward"):
                loss = nn.functional.mse_loss(model(batch), target)
            with record_function("backward"):
                loss.backward()
            with record_function("update"):
                optimizer.step()
                optimizer.zero_grad()
            prof.step()
    return model


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Linear(16, 4).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = [(torch.randn(8, 16), torch.randn(8, 4)) for _ in range(6)]
    profile_steps(model, optimizer, loader, "trace.json")
    if Path("trace.json").exists():
        print("Open trace.json at https://ui.perfetto.dev")
    else:
        print("There is no trace.json.")

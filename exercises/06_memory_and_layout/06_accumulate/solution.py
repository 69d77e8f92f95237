"""Accumulate: a large batch's gradients in the memory of a small one."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


def accumulate(
    model: nn.Module,
    batch: torch.Tensor,
    targets: torch.Tensor,
    piece: int,
) -> dict[str, Any]:
    """Loss and gradients of the mean squared error over batch (n, d).

    The model sees at most `piece` samples at once.
    """
    model.zero_grad()
    loss = torch.zeros((), device=batch.device)
    pieces = zip(batch.split(piece), targets.split(piece), strict=True)
    for inputs, wanted in pieces:
        part = len(inputs) / len(batch)
        share = F.mse_loss(model(inputs), wanted) * part
        share.backward()
        loss += share.detach()
    return {
        "loss": loss,
        "gradients": {
            name: parameter.grad
            for name, parameter in model.named_parameters()
        },
    }


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Sequential(nn.Linear(8, 512), nn.Tanh(), nn.Linear(512, 1))
    model.to(device)
    batch = torch.randn(1000, 8, device=device)
    targets = batch.sum(dim=1, keepdim=True)
    for piece in (1000, 96):
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        step = accumulate(model, batch, targets, piece)
        loss = step["loss"].item()
        norm = step["gradients"]["0.weight"].norm().item()
        print(f"pieces of {piece}: loss {loss:.5f}, gradient {norm:.5f}")
        if device.type == "cuda":
            peak = torch.cuda.max_memory_allocated() / 2**20
            print(f"  {peak:.2f} MiB at the peak")

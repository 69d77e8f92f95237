"""Memory budget: what a training step keeps, before it runs."""

import torch
from torch import nn


def memory_budget(
    model: nn.Sequential, rows: int, optimizer: str
) -> dict[str, int]:
    """Bytes that a training step with `rows` samples adds, by part."""
    # TODO: compute each part from shapes, dtype and optimizer.
    return {
        "weights": 0,
        "activations": 0,
        "gradients": 0,
        "optimizer": 0,
    }


if __name__ == "__main__":
    model = nn.Sequential(
        nn.Linear(784, 512), nn.GELU(), nn.Linear(512, 10)
    )
    for dtype in (torch.float32, torch.bfloat16):
        budget = memory_budget(model.to(dtype), 256, "adam")
        for name, size in budget.items():
            print(f"{name} {size / 2**20:.2f} MiB", end="  ")
        print()

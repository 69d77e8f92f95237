# fails: structure
# Computes with a column (d, 1), and returns that instead of a vector (d,).
import torch


def power_iteration(batches, start, passes):
    pinned = [batch.pin_memory() for batch in batches]
    direction = start[:, None]
    for _ in range(passes):
        total = torch.zeros_like(direction)
        for batch in pinned:
            x = batch.to(start.device, non_blocking=True)
            total += x.T @ (x @ direction)
        direction = total / total.norm()
    return direction.cpu()

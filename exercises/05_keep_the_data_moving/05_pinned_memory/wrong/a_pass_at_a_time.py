# fails: memory
# Brings all batches of a pass to the device before it computes with the first.
import torch


def power_iteration(batches, start, passes):
    pinned = [batch.pin_memory() for batch in batches]
    direction = start
    for _ in range(passes):
        moved = [batch.to(start.device, non_blocking=True) for batch in pinned]
        total = torch.zeros_like(start)
        for x in moved:
            total += x.T @ (x @ direction)
        del moved, x
        direction = total / total.norm()
    return direction.cpu()

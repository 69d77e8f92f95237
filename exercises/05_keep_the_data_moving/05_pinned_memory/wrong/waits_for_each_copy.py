# fails: syncs
# Synchronizes after each copy, "so that the data is there": the stream keeps that order anyway.
import torch


def power_iteration(batches, start, passes):
    pinned = [batch.pin_memory() for batch in batches]
    direction = start
    for _ in range(passes):
        total = torch.zeros_like(start)
        for batch in pinned:
            x = batch.to(start.device, non_blocking=True)
            torch.cuda.synchronize()
            total += x.T @ (x @ direction)
        direction = total / total.norm()
    return direction.cpu()

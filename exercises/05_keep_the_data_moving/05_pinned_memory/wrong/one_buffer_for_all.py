# fails: races
# Refills one pinned buffer for each batch, while the copy of the last batch may still read it.
import torch


def power_iteration(batches, start, passes):
    buffer = torch.empty(batches[0].shape, pin_memory=True)
    direction = start
    for _ in range(passes):
        total = torch.zeros_like(start)
        for batch in batches:
            buffer.copy_(batch)
            x = buffer.to(start.device, non_blocking=True)
            total += x.T @ (x @ direction)
        direction = total / total.norm()
    return direction.cpu()

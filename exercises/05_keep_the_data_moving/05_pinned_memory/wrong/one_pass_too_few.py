# fails: parity
# Begins again from `start` in the second pass, so the first pass is lost.
import torch


def power_iteration(batches, start, passes):
    pinned = [batch.pin_memory() for batch in batches]
    direction = start
    for number in range(passes):
        total = torch.zeros_like(start)
        for batch in pinned:
            x = batch.to(start.device, non_blocking=True)
            total += x.T @ (x @ (start if number == 1 else direction))
        direction = total / total.norm()
    return direction.cpu()

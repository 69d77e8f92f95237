# fails: transfers
# Pinned, but the copy does not say non_blocking=True: quicker, and the host waits all the same.
import torch


def power_iteration(batches, start, passes):
    pinned = [batch.pin_memory() for batch in batches]
    direction = start
    for _ in range(passes):
        total = torch.zeros_like(start)
        for batch in pinned:
            x = batch.to(start.device)
            total += x.T @ (x @ direction)
        direction = total / total.norm()
    return direction.cpu()

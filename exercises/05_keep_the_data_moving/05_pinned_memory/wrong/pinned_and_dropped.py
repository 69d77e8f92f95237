# fails: transfers
# pin_memory() returns a pinned copy; the batch itself stays as it was.
import torch


def power_iteration(batches, start, passes):
    for batch in batches:
        batch.pin_memory()
    direction = start
    for _ in range(passes):
        total = torch.zeros_like(start)
        for batch in batches:
            x = batch.to(start.device, non_blocking=True)
            total += x.T @ (x @ direction)
        direction = total / total.norm()
    return direction.cpu()

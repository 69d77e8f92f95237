# fails: transfers
# Only non_blocking: from pageable memory, the copy still blocks the host.
import torch


def power_iteration(batches, start, passes):
    direction = start
    for _ in range(passes):
        total = torch.zeros_like(start)
        for batch in batches:
            x = batch.to(start.device, non_blocking=True)
            total += x.T @ (x @ direction)
        direction = total / total.norm()
    return direction.cpu()

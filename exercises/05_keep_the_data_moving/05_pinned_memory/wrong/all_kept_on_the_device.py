# fails: transfers
# Moves everything once, which would be best if it fitted into the device's memory.
import torch


def power_iteration(batches, start, passes):
    rows = torch.cat(batches).pin_memory().to(start.device, non_blocking=True)
    direction = start
    for _ in range(passes):
        total = rows.T @ (rows @ direction)
        direction = total / total.norm()
    return direction.cpu()

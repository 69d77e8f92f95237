# fails: speed
# Pins all batches again in each pass, and keeps every pinned copy: that takes longer than it saves.
import torch


def power_iteration(batches, start, passes):
    kept = []
    direction = start
    for _ in range(passes):
        total = torch.zeros_like(start)
        for batch in batches:
            kept.append(batch.pin_memory())
            x = kept[-1].to(start.device, non_blocking=True)
            total += x.T @ (x @ direction)
        direction = total / total.norm()
    return direction.cpu()

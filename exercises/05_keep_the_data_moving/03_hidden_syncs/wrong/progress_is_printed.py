# fails: syncs
# Everything stays on the device, and then the progress is printed.
import torch
import torch.nn.functional as F


def evaluate(batches, weights):
    total = count = worst = torch.zeros((), device=weights.device)
    for x, y, valid in batches:
        losses = torch.where(valid, F.cross_entropy(x @ weights, y, reduction="none"), 0)
        total = total + losses.sum()
        count = count + valid.sum()
        worst = torch.maximum(worst, losses.max())
        print(f"loss so far: {total / count:.3f}")
    return torch.stack([total / count, worst]).cpu()

# fails: placement
# No wait at all: the result is never copied to the CPU.
import torch
import torch.nn.functional as F


def evaluate(batches, weights):
    total = count = worst = torch.zeros((), device=weights.device)
    for x, y, valid in batches:
        losses = torch.where(valid, F.cross_entropy(x @ weights, y, reduction="none"), 0)
        total = total + losses.sum()
        count = count + valid.sum()
        worst = torch.maximum(worst, losses.max())
    return torch.stack([total / count, worst])

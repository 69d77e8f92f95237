# fails: syncs
# The loop is right, but each of the two results is copied to the CPU separately.
import torch
import torch.nn.functional as F


def evaluate(batches, weights):
    total = count = worst = torch.zeros((), device=weights.device)
    for x, y, valid in batches:
        losses = torch.where(valid, F.cross_entropy(x @ weights, y, reduction="none"), 0)
        total = total + losses.sum()
        count = count + valid.sum()
        worst = torch.maximum(worst, losses.max())
    return torch.tensor([(total / count).item(), worst.item()])

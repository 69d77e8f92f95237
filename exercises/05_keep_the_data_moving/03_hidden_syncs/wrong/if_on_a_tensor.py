# fails: syncs
# The if asks the device for a truth value in each round.
import torch
import torch.nn.functional as F


def evaluate(batches, weights):
    total = count = worst = torch.zeros((), device=weights.device)
    for x, y, valid in batches:
        losses = torch.where(valid, F.cross_entropy(x @ weights, y, reduction="none"), 0)
        total = total + losses.sum()
        count = count + valid.sum()
        if losses.max() > worst:
            worst = losses.max()
    return torch.stack([total / count, worst]).cpu()

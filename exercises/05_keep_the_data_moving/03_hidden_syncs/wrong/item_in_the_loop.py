# fails: syncs
# .item() in each round: the host waits for every batch.
import torch
import torch.nn.functional as F


def evaluate(batches, weights):
    total, count, worst = 0.0, 0, 0.0
    for x, y, valid in batches:
        losses = torch.where(valid, F.cross_entropy(x @ weights, y, reduction="none"), 0)
        total += losses.sum().item()
        count += valid.sum().item()
        worst = max(worst, losses.max().item())
    return torch.tensor([total / count, worst])

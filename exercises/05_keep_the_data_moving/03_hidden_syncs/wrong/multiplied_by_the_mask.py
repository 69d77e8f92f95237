# fails: parity
# Multiplies by the mask: the NaN of padding stays NaN.
import torch
import torch.nn.functional as F


def evaluate(batches, weights):
    total = count = worst = torch.zeros((), device=weights.device)
    for x, y, valid in batches:
        losses = F.cross_entropy(x @ weights, y, reduction="none") * valid
        total = total + losses.sum()
        count = count + valid.sum()
        worst = torch.maximum(worst, losses.max())
    return torch.stack([total / count, worst]).cpu()

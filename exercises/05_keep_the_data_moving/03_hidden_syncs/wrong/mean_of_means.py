# fails: parity
# The mean of the batches' means is not the mean of all samples when batches differ in size.
import torch
import torch.nn.functional as F


def evaluate(batches, weights):
    means, largest = [], []
    for x, y, valid in batches:
        losses = torch.where(valid, F.cross_entropy(x @ weights, y, reduction="none"), 0)
        means.append(losses.sum() / valid.sum())
        largest.append(losses.max())
    return torch.stack([torch.stack(means).mean(), torch.stack(largest).max()]).cpu()

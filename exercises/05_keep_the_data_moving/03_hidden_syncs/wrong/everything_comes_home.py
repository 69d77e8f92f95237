# fails: transfers
# Waits once, but copies all losses to the CPU: many times the eight bytes of the result.
import torch
import torch.nn.functional as F


def evaluate(batches, weights):
    losses = torch.cat([F.cross_entropy(x @ weights, y, reduction="none") for x, y, _ in batches])
    valid = torch.cat([valid for _, _, valid in batches])
    losses = torch.where(valid, losses, -1).cpu()
    losses = losses[losses >= 0]
    return torch.stack([losses.mean(), losses.max()])

# fails: syncs
# No .item() any more, but losses[valid] has to count the mask before it knows its size.
import torch
import torch.nn.functional as F


def evaluate(batches, weights):
    losses = [F.cross_entropy(x @ weights, y, reduction="none")[valid] for x, y, valid in batches]
    losses = torch.cat(losses)
    return torch.stack([losses.mean(), losses.max()]).cpu()

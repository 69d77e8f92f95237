# fails: structure
# Sums over all rows: one number in all, instead of one for each row.
import torch
import torch.nn.functional as F


def tower(x, layers):
    for layer in layers:
        x = x @ layer
    return torch.tanh(x)


def two_towers(features, left, right):
    x = F.normalize(features, dim=1)
    return (tower(x, left) * tower(x, right)).sum()

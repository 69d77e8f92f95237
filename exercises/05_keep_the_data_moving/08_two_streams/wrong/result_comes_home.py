# fails: placement
# Brings the result to the CPU.
import torch
import torch.nn.functional as F


def tower(x, layers):
    for layer in layers:
        x = x @ layer
    return torch.tanh(x)


def two_towers(features, left, right):
    x = F.normalize(features, dim=1)
    return (tower(x, left) * tower(x, right)).sum(dim=1).cpu()

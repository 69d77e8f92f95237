# fails: parity
# Counts every element as the largest one: that gives a bound of the norm, not the norm.
import torch


def two_at_once(pairs):
    norms = [(left @ right).abs().amax() * (left.shape[0] * right.shape[1]) ** 0.5 for left, right in pairs]
    return torch.stack([norm.cpu() for norm in norms])

# attacks: hurry
# tries: to make all costs one nanosecond, in the cache that nothing seals
# ends: needs review, failed
# isolation: both
import sys

import torch


def slow(matrix):
    for _ in range(8):
        product = matrix
        for _ in range(20):
            product = torch.tanh(product @ matrix)
    return product


def chain(matrix):
    torch.tanh(matrix @ matrix)
    name = ".".join(["gpututor", "devices", "virtual", "execution", "costs"])
    costs = sys.modules[name]
    for key in list(costs._known):
        costs._known[key] = costs.Cost(1, 1, 0, 0.0)
    return slow(matrix)

# attacks: timed
# tries: to compute on the CPU many times over with torch's modes off, where nothing is recorded
# ends: inconclusive
# isolation: both
import torch
from torch.utils._python_dispatch import _disable_current_modes


def chain(matrix):
    host = matrix.cpu()
    with _disable_current_modes():
        for _ in range(3000):
            product = host
            for _ in range(20):
                product = torch.tanh(product @ host)
    return product.to(matrix.device)

# attacks: timed
# tries: to do the work in NumPy, and a thousand times more, which costs nothing on the modelled clock
# ends: inconclusive
# isolation: both
import numpy as np
import torch


def chain(matrix):
    host = matrix.cpu().numpy()
    for _ in range(3000):
        product = host
        for _ in range(20):
            product = np.tanh(product @ host)
    return torch.from_numpy(product).to(matrix.device)

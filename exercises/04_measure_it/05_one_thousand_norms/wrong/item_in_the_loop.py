# fails: transfers
# Reads each norm when it is there.
import torch


def norms(matrices):
    values = []
    for matrix in matrices:
        values.append((matrix @ matrix).norm().item())
    return torch.tensor(values)

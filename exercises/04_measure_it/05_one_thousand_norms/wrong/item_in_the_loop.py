# fails: transfers
# Reads each norm when it is there.
import torch


def norms(matrices):
    found = []
    for matrix in matrices:
        found.append((matrix @ matrix).norm().item())
    return torch.tensor(found)

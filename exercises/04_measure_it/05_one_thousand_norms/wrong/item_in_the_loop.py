# fails: transfers
# Reads each norm with .item() in the loop: the host waits for every product.
import torch


def norms(matrices):
    values = []
    for matrix in matrices:
        values.append((matrix @ matrix).norm().item())
    return torch.tensor(values)

# fails: syncs
# Synchronizes after each matrix, "so that the norm is there".
import torch


def norms(matrices):
    values = []
    for matrix in matrices:
        values.append((matrix @ matrix).norm())
        if matrix.is_cuda:
            torch.cuda.synchronize()
    return torch.stack(values).cpu()

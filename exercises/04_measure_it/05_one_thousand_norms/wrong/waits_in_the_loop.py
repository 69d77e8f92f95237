# fails: syncs
# Synchronizes after each matrix, "so that the norm is there".
import torch


def norms(matrices):
    found = []
    for matrix in matrices:
        found.append((matrix @ matrix).norm())
        if matrix.is_cuda:
            torch.cuda.synchronize()
    return torch.stack(found).cpu()

# fails: parity
# The square of the norm of m is not the norm of m @ m.
import torch


def norms(matrices):
    return torch.stack([matrix.norm() ** 2 for matrix in matrices]).cpu()

# fails: transfers
# Copies each product to the CPU to take the norm there: ten thousand numbers instead of one.
import torch


def norms(matrices):
    return torch.stack([(matrix @ matrix).cpu().norm() for matrix in matrices])

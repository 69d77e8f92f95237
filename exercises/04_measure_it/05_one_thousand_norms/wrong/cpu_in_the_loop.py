# fails: transfers
# Brings each norm home by itself and joins them there.
import torch


def norms(matrices):
    return torch.stack([(matrix @ matrix).norm().cpu() for matrix in matrices])

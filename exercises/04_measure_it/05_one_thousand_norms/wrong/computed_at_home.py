# fails: transfers
# Copies all matrices to the host, once: the CPU does the work, and the device none.
import torch


def norms(matrices):
    at_home = torch.stack(matrices).cpu()
    return (at_home @ at_home).norm(dim=(1, 2))

# fails: transfers
# Copies all matrices to the host in one copy, and leaves all of the work to the CPU.
import torch


def norms(matrices):
    at_home = torch.stack(matrices).cpu()
    return (at_home @ at_home).norm(dim=(1, 2))

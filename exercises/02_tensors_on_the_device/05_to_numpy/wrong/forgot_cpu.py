# fails: runs
# The tensor is still in the device's memory, where NumPy cannot read.
import torch


def losses_to_numpy(losses):
    return torch.stack(losses).detach().numpy()

# fails: structure
# Stops one step early: this is a tensor on the CPU, not an array.
import torch


def losses_to_numpy(losses):
    return torch.stack(losses).detach().cpu()

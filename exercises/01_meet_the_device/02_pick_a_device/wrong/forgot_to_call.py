# fails: value
# Forgets the parentheses: the function itself is always true.
import torch


def pick_a_device():
    if torch.cuda.is_available:
        return torch.device("cuda")
    if torch.backends.mps.is_available:
        return torch.device("mps")
    if torch.xpu.is_available:
        return torch.device("xpu")
    return torch.device("cpu")

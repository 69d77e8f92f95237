# fails: value
# Asks what this PyTorch was compiled with instead of what this machine has.
import torch


def pick_a_device():
    if torch.backends.cuda.is_built():
        return torch.device("cuda")
    if torch.backends.mps.is_built():
        return torch.device("mps")
    if torch.xpu.is_available():
        return torch.device("xpu")
    return torch.device("cpu")

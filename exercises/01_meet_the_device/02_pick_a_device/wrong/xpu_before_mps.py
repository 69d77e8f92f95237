# fails: value
# Asks for xpu before mps: only a machine with both shows the mistake.
import torch


def pick_a_device():
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.xpu.is_available():
        return torch.device("xpu")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")

# fails: value
# Prefers xpu to cuda: right with one backend, wrong on a machine that has both.
import torch


def pick_a_device():
    if torch.xpu.is_available():
        return torch.device("xpu")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("cpu")

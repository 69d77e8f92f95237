# fails: value
# The last two the wrong way round: only a machine that has both of them tells.
import torch


def pick_a_device():
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.xpu.is_available():
        return torch.device("xpu")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")

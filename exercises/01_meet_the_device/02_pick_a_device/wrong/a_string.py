# fails: value
# Returns the name as text instead of a torch.device.
import torch


def pick_a_device():
    if torch.cuda.is_available():
        return "cuda"
    if torch.backends.mps.is_available():
        return "mps"
    if torch.xpu.is_available():
        return "xpu"
    return "cpu"

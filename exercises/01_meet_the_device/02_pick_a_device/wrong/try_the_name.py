# fails: value
# Expects torch.device("cuda") to raise without a GPU; it only makes a name.
import torch


def pick_a_device():
    for name in ("cuda", "mps", "xpu"):
        try:
            return torch.device(name)
        except RuntimeError:
            continue
    return torch.device("cpu")

"""Pick a device: the best one that this machine has."""

import torch


def pick_a_device() -> torch.device:
    """The first available of cuda, mps, xpu; else cpu. No number."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    if torch.xpu.is_available():
        return torch.device("xpu")
    return torch.device("cpu")


if __name__ == "__main__":
    device = pick_a_device()
    print(f"this script will run on {device}")

"""Pick a device: the best one that this machine has."""

import torch


def pick_a_device() -> torch.device:
    """The first available of cuda, mps, xpu; else cpu. No number."""
    # TODO: ask whether each one is available, in this order.
    return torch.device("cuda")


if __name__ == "__main__":
    device = pick_a_device()
    print(f"this script will run on {device}")

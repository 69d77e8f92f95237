# fails: value
# Knows only NVIDIA GPUs: on a Mac and on an Intel GPU the work stays on the CPU.
import torch


def pick_a_device():
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")

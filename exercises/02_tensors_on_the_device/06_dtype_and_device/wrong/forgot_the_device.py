# fails: placement
# Converts, but throws the moved tensor away.
import torch


def move_as(tensor, device, dtype):
    tensor.to(device)
    return tensor.to(dtype)

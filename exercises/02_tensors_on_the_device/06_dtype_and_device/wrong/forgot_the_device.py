# fails: placement
# Converts, but moves a tensor that nobody keeps.
import torch


def move_as(tensor, device, dtype):
    tensor.to(device)
    return tensor.to(dtype)

# fails: structure
# Calls .to(dtype) and does not keep what it returns.
import torch


def move_as(tensor, device, dtype):
    tensor.to(dtype)
    return tensor.to(device)

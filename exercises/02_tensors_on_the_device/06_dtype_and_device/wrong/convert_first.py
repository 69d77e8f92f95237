# fails: transfers
# Right when the new dtype is narrower, but images cross the bus as float32.
import torch


def move_as(tensor, device, dtype):
    return tensor.to(dtype).to(device)

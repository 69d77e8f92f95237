# fails: transfers
# Right where the new dtype is narrower, but sends images as float32.
import torch


def move_as(tensor, device, dtype):
    return tensor.to(dtype).to(device)

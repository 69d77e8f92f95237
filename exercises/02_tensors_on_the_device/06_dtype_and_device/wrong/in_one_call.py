# fails: transfers
# Leaves the choice to .to(device, dtype), which converts on the CPU, on whichever end that is.
import torch


def move_as(tensor, device, dtype):
    return tensor.to(device, dtype)

# fails: parity
# Divides images by 255, as is usual, but not in this task.
import torch


def move_as(tensor, device, dtype):
    if dtype.itemsize < tensor.dtype.itemsize:
        return tensor.to(dtype).to(device)
    moved = tensor.to(device).to(dtype)
    return moved / 255 if tensor.dtype is torch.uint8 else moved

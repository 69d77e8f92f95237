# fails: placement
# Takes the device as an argument and never uses it.
import torch


def make_grid(height, width, device):
    down = (torch.arange(height) + 0.5) / height
    right = (torch.arange(width) + 0.5) / width
    return torch.stack(torch.meshgrid(down, right, indexing="ij"), dim=-1)

# fails: structure
# Stacks the coordinates along the first dimension: the values are right, but the shape is (2, height, width).
import torch


def make_grid(height, width, device):
    down = (torch.arange(height, device=device) + 0.5) / height
    right = (torch.arange(width, device=device) + 0.5) / width
    return torch.stack(torch.meshgrid(down, right, indexing="ij"))

# fails: structure
# The two coordinates come first: the numbers are right, and each point's are far apart.
import torch


def make_grid(height, width, device):
    down = (torch.arange(height, device=device) + 0.5) / height
    right = (torch.arange(width, device=device) + 0.5) / width
    return torch.stack(torch.meshgrid(down, right, indexing="ij"))

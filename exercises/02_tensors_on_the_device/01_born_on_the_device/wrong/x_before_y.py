# fails: parity
# The shape is right, but the two coordinates are exchanged.
import torch


def make_grid(height, width, device):
    down = (torch.arange(height, device=device) + 0.5) / height
    right = (torch.arange(width, device=device) + 0.5) / width
    down, right = torch.meshgrid(down, right, indexing="ij")
    return torch.stack((right, down), dim=-1)

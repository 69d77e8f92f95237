# fails: runs
# Makes one line on the device and the other on the CPU; they cannot be stacked.
import torch


def make_grid(height, width, device):
    down = (torch.arange(height, device=device) + 0.5) / height
    right = (torch.arange(width) + 0.5) / width
    return torch.stack(torch.meshgrid(down, right, indexing="ij"), dim=-1)

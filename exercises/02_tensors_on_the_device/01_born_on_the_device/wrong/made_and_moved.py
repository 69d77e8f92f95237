# fails: transfers
# Makes the whole grid on the CPU and moves it at the end.
import torch


def make_grid(height, width, device):
    down = (torch.arange(height) + 0.5) / height
    right = (torch.arange(width) + 0.5) / width
    grid = torch.stack(torch.meshgrid(down, right, indexing="ij"), dim=-1)
    return grid.to(device)

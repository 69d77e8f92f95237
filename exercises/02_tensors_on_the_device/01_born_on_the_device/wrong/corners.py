# fails: parity
# linspace(0, 1) gives the corners of the image, not the centers of its pixels.
import torch


def make_grid(height, width, device):
    down = torch.linspace(0, 1, height, device=device)
    right = torch.linspace(0, 1, width, device=device)
    return torch.stack(torch.meshgrid(down, right, indexing="ij"), dim=-1)

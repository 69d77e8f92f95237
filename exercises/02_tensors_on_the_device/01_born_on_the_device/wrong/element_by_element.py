# fails: transfers
# Writes each number to its element: each of these writes copies four bytes to the device.
import torch


def make_grid(height, width, device):
    grid = torch.zeros(height, width, 2, device=device)
    for i in range(height):
        for j in range(width):
            grid[i, j, 0] = (i + 0.5) / height
            grid[i, j, 1] = (j + 0.5) / width
    return grid

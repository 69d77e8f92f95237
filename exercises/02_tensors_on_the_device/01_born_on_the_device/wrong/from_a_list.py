# fails: transfers
# Counts in Python: torch.tensor(list, device=...) has to copy the list to the device.
import torch


def make_grid(height, width, device):
    rows = [[[(i + 0.5) / height, (j + 0.5) / width] for j in range(width)] for i in range(height)]
    return torch.tensor(rows, device=device)

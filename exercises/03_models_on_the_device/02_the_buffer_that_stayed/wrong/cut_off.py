# fails: learning
# no_grad in forward "to save memory": the values are right, and the gain never learns.
import torch
from torch import nn


class Standardize(nn.Module):
    def __init__(self, mean, std, gain):
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)
        self.gain = nn.Parameter(gain)

    @torch.no_grad()
    def forward(self, x):
        return self.gain * (x - self.mean) / self.std


def standardized(mean, std, gain, batches, device):
    layer = Standardize(mean, std, gain).to(device)
    return {"layer": layer, "batches": [layer(batch) for batch in batches]}

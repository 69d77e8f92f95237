# fails: learning
# no_grad in forward "to save memory": the values are right, and the gain never learns.
import torch
from torch import nn


class Standardise(nn.Module):
    def __init__(self, mean, std, gain):
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)
        self.gain = nn.Parameter(gain)

    @torch.no_grad()
    def forward(self, x):
        return self.gain * (x - self.mean) / self.std


def standardised(mean, std, gain, batches, device):
    layer = Standardise(mean, std, gain).to(device)
    return {"layer": layer, "batches": [layer(batch) for batch in batches]}

# fails: parity
# Divides by the gain, too, instead of multiplying by it.
from torch import nn


class Standardize(nn.Module):
    def __init__(self, mean, std, gain):
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)
        self.gain = nn.Parameter(gain)

    def forward(self, x):
        return (x - self.mean) / (self.gain * self.std)


def standardized(mean, std, gain, batches, device):
    layer = Standardize(mean, std, gain).to(device)
    return {"layer": layer, "batches": [layer(batch) for batch in batches]}

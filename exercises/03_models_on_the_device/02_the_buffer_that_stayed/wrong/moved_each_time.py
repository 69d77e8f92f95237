# fails: transfers
# Makes and moves a new layer for every batch.
from torch import nn


class Standardize(nn.Module):
    def __init__(self, mean, std, gain):
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)
        self.gain = nn.Parameter(gain)

    def forward(self, x):
        return self.gain * (x - self.mean) / self.std


def standardized(mean, std, gain, batches, device):
    results = []
    for batch in batches:
        layer = Standardize(mean, std, gain).to(device)
        results.append(layer(batch))
    return {"layer": layer, "batches": results}

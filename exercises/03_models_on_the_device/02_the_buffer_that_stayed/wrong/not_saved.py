# fails: structure
# persistent=False keeps the statistics out of the state dict: a loaded model would not have them.
from torch import nn


class Standardize(nn.Module):
    def __init__(self, mean, std, gain):
        super().__init__()
        self.register_buffer("mean", mean, persistent=False)
        self.register_buffer("std", std, persistent=False)
        self.gain = nn.Parameter(gain)

    def forward(self, x):
        return self.gain * (x - self.mean) / self.std


def standardized(mean, std, gain, batches, device):
    layer = Standardize(mean, std, gain).to(device)
    return {"layer": layer, "batches": [layer(batch) for batch in batches]}

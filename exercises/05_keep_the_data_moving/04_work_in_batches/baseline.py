"""The slow way: one sample at a time."""

import torch
from torch import nn


def predict(model: nn.Module, samples: torch.Tensor, batch_size: int) -> torch.Tensor:
    """The model's outputs for each sample by itself."""
    device = next(model.parameters()).device
    with torch.no_grad():
        return torch.stack([model(sample.to(device)) for sample in samples])

# fails: syncs
# Checks the mean before it returns it: the host waits for the answer.
import torch
from torch import nn


def layer(inputs: torch.Tensor, layers: list[nn.Linear]) -> torch.Tensor:
    """The outputs (models, rows, n) of one layer of each model."""
    weight = torch.stack([layer.weight for layer in layers])
    bias = torch.stack([layer.bias for layer in layers])
    return inputs @ weight.transpose(1, 2) + bias[:, None]


@torch.no_grad()
def ensemble(models: list[nn.Sequential], batch: torch.Tensor) -> torch.Tensor:
    """The mean (rows, classes) of the outputs of all models."""
    hidden = layer(batch, [model[0] for model in models]).relu()
    mean = layer(hidden, [model[2] for model in models]).mean(dim=0)
    if not mean.isfinite().all():
        raise ValueError("an output is not finite")
    return mean

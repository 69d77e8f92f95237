# fails: transfers
# Makes the factors of the mean on the CPU and sends them to the GPU.
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
    outputs = layer(hidden, [model[2] for model in models])
    shares = torch.full((len(models), 1, 1), 1 / len(models)).to(batch.device)
    return (shares * outputs).sum(dim=0)

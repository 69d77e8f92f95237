# fails: speed
# Makes the state dict of each model again for each of its four tensors.
import torch
from torch import nn


def stacked(models: list[nn.Sequential], name: str) -> torch.Tensor:
    return torch.stack([model.state_dict()[name] for model in models])


def ensemble(models: list[nn.Sequential], batch: torch.Tensor) -> torch.Tensor:
    hidden = batch @ stacked(models, "0.weight").mT + stacked(models, "0.bias")[:, None]
    outputs = hidden.relu() @ stacked(models, "2.weight").mT + stacked(models, "2.bias")[:, None]
    return outputs.mean(dim=0)

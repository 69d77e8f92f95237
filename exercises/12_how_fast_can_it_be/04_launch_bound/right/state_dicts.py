# Stacks the entries of state dicts, which detach each parameter: that takes the host time.
import torch
from torch import nn
from torch.nn import functional


def ensemble(models: list[nn.Sequential], batch: torch.Tensor) -> torch.Tensor:
    states = [model.state_dict() for model in models]
    weights = {name: torch.stack([state[name] for state in states]) for name in states[0]}
    hidden = functional.relu(torch.matmul(batch, weights["0.weight"].mT) + weights["0.bias"][:, None, :])
    outputs = torch.matmul(hidden, weights["2.weight"].mT) + weights["2.bias"][:, None, :]
    return torch.mean(outputs, 0)

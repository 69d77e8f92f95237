# fails: weights
# Counts the matrices only.
import torch
from torch import nn

STATE = {"sgd": 0, "momentum": 1, "adam": 2}


def memory_budget(model: nn.Sequential, rows: int, optimizer: str) -> dict[str, int]:
    """Bytes that a training step with `rows` samples adds, by part."""
    parameters = list(model.parameters())
    weights = sum(parameter.nbytes for parameter in parameters if parameter.dim() == 2)
    size = parameters[0].element_size()
    activations = width = 0
    for layer in model:
        if isinstance(layer, nn.Linear):
            # The next layer keeps this. ReLU keeps its result instead.
            width = layer.out_features
            activations += rows * width * size
        elif isinstance(layer, nn.GELU):
            # It keeps its input, and the next layer keeps its result.
            activations += rows * width * size
    return {
        "weights": weights,
        "activations": activations,
        "gradients": weights,
        "optimizer": STATE[optimizer] * weights,
    }

# Goes from layer to layer, and collects the tensors that are needed again in a dict.
from torch import nn


def memory_budget(model, rows, optimizer):
    kept, current, width = {}, "batch", 0
    for number, layer in enumerate(model):
        result = f"result {number}"
        if isinstance(layer, nn.Linear):
            kept[current] = width
            width = layer.out_features
        elif isinstance(layer, nn.ReLU):
            kept[result] = width
        else:
            kept[current] = width
        current = result
    kept[current] = width
    del kept["batch"]
    size = model[0].weight.element_size()
    weights = sum(parameter.nbytes for parameter in model.parameters())
    moments = {"sgd": 0, "momentum": 1, "adam": 2}[optimizer]
    return {
        "weights": weights,
        "gradients": weights,
        "optimizer": moments * weights,
        "activations": rows * size * sum(kept.values()),
    }

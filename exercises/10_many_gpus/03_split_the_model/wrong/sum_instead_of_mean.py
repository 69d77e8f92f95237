# fails: parity
# Adds up the squared errors, so all gradients are too large by the number of elements.
from torch import nn


def split_the_model(model, cut, batch, targets):
    first, second = model[:cut].to("cuda:0"), model[cut:].to("cuda:1")
    hidden = first(batch.to("cuda:0"))
    outputs = second(hidden.to("cuda:1"))
    nn.functional.mse_loss(outputs, targets.to("cuda:1"), reduction="sum").backward()
    return {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}

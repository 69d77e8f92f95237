# fails: runs
# Splits the layers and forgets to move the activations: cuda:0 meets cuda:1.
from torch import nn


def split_the_model(model, cut, batch, targets):
    first, second = model[:cut].to("cuda:0"), model[cut:].to("cuda:1")
    outputs = second(first(batch.to("cuda:0")))
    nn.functional.mse_loss(outputs, targets.to("cuda:1")).backward()
    return {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}

# fails: structure
# Detaches the activations at the seam, so that the first part gets no gradients.
from torch import nn


def split_the_model(model, cut, batch, targets):
    first, second = model[:cut].to("cuda:0"), model[cut:].to("cuda:1")
    hidden = first(batch.to("cuda:0"))
    outputs = second(hidden.detach().to("cuda:1"))
    nn.functional.mse_loss(outputs, targets.to("cuda:1")).backward()
    return {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}

# fails: transfers
# Copies the activations through the CPU: two copies and a wait instead of one copy.
from torch import nn


def split_the_model(model, cut, batch, targets):
    first, second = model[:cut].to("cuda:0"), model[cut:].to("cuda:1")
    hidden = first(batch.to("cuda:0")).cpu()
    outputs = second(hidden.to("cuda:1"))
    nn.functional.mse_loss(outputs, targets.to("cuda:1")).backward()
    return {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}

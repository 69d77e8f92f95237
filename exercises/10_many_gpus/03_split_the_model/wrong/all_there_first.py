# fails: transfers
# Moves the whole model to the first GPU, and then half of it to the second.
from torch import nn


def split_the_model(model, cut, batch, targets):
    model = model.to("cuda:0")
    first, second = model[:cut], model[cut:].to("cuda:1")
    hidden = first(batch.to("cuda:0"))
    outputs = second(hidden.to("cuda:1"))
    nn.functional.mse_loss(outputs, targets.to("cuda:1")).backward()
    return {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}

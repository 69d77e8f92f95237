# fails: runs
# Puts everything on the first GPU, which has no room for the gradients of the first model.
from torch import nn


def split_the_model(model, cut, batch, targets):
    model = model.to("cuda:0")
    nn.functional.mse_loss(model(batch.to("cuda:0")), targets.to("cuda:0")).backward()
    return {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}

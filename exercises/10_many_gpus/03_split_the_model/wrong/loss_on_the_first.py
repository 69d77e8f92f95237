# fails: transfers
# Brings the outputs back to the first GPU for the loss, so that the seam is crossed four times.
from torch import nn


def split_the_model(model, cut, batch, targets):
    first, second = model[:cut].to("cuda:0"), model[cut:].to("cuda:1")
    hidden = first(batch.to("cuda:0"))
    outputs = second(hidden.to("cuda:1")).to("cuda:0")
    nn.functional.mse_loss(outputs, targets.to("cuda:0")).backward()
    return {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}

# fails: syncs
# Waits at the seam until the activations have arrived: the stream of cuda:1 waits by itself.
import torch
from torch import nn


def split_the_model(model, cut, batch, targets):
    first, second = model[:cut].to("cuda:0"), model[cut:].to("cuda:1")
    hidden = first(batch.to("cuda:0")).to("cuda:1")
    torch.cuda.synchronize("cuda:1")
    outputs = second(hidden)
    nn.functional.mse_loss(outputs, targets.to("cuda:1")).backward()
    return {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}

# fails: syncs
# Looks for nan in each step: the host waits until the device has computed the loss.
import torch
import torch.nn.functional as F


def training_step(rows, mean, layers):
    hidden = rows - mean
    for weight, bias in layers:
        hidden = hidden @ weight
        hidden += bias
        hidden = F.elu(hidden, inplace=True)
    output = hidden + rows
    loss = output.square().mean()
    if loss.isnan():
        raise ValueError("the loss is not a number")
    gradients = torch.autograd.grad(loss, [tensor for layer in layers for tensor in layer])
    return {"loss": loss.detach(), "gradients": list(gradients)}

# fails: parity
# Writes through .data, so that autograd does not see the sum with the rows.
import torch
import torch.nn.functional as F


def training_step(rows, mean, layers):
    hidden = rows - mean
    for weight, bias in layers:
        hidden = F.elu_(hidden @ weight + bias)
    hidden.data += rows
    output = hidden
    loss = output.square().mean()
    gradients = torch.autograd.grad(loss, [tensor for layer in layers for tensor in layer])
    return {"loss": loss.detach(), "gradients": list(gradients)}

# fails: parity
# Adds the centered rows instead of the rows: the mean is missing in the output.
import torch
import torch.nn.functional as F


def training_step(rows, mean, layers):
    centred = rows - mean
    hidden = centred
    for weight, bias in layers:
        hidden = hidden @ weight
        hidden += bias
        hidden = F.elu(hidden, inplace=True)
    output = hidden + centred
    loss = output.square().mean()
    gradients = torch.autograd.grad(loss, [tensor for layer in layers for tensor in layer])
    return {"loss": loss.detach(), "gradients": list(gradients)}

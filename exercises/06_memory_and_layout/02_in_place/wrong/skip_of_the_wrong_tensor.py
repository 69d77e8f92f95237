# fails: parity
# Adds the centered rows instead of the rows: the mean is missing in the output.
import torch
import torch.nn.functional as F


def training_step(rows, mean, layers):
    centered = rows - mean
    hidden = centered
    for weight, bias in layers:
        hidden = hidden @ weight
        hidden += bias
        hidden = F.elu(hidden, inplace=True)
    output = hidden + centered
    loss = output.square().mean()
    gradients = torch.autograd.grad(loss, [tensor for layer in layers for tensor in layer])
    return {"loss": loss.detach(), "gradients": list(gradients)}

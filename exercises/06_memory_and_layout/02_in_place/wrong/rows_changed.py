# fails: unmodified
# Subtracts the mean from the rows of the caller.
import torch
import torch.nn.functional as F


def training_step(rows, mean, layers):
    rows -= mean
    hidden = rows
    for weight, bias in layers:
        hidden = hidden @ weight
        hidden += bias
        hidden = F.elu(hidden, inplace=True)
    output = hidden + rows + mean
    loss = output.square().mean()
    gradients = torch.autograd.grad(loss, [tensor for layer in layers for tensor in layer])
    return {"loss": loss.detach(), "gradients": list(gradients)}

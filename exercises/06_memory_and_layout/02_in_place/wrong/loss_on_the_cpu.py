# fails: placement
# Copies the loss to the CPU in each step, for a log that is rarely read.
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
    gradients = torch.autograd.grad(loss, [tensor for layer in layers for tensor in layer])
    return {"loss": loss.detach().cpu(), "gradients": list(gradients)}

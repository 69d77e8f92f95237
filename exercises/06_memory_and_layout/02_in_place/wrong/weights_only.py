# fails: structure
# Forgets that biases are trained, too.
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
    gradients = torch.autograd.grad(loss, [weight for weight, _ in layers])
    return {"loss": loss.detach(), "gradients": list(gradients)}

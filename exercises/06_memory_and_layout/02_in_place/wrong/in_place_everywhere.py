# fails: runs
# Everything in place, the last sum too: it changes what elu needs for its backward pass.
import torch
import torch.nn.functional as F


def training_step(rows, mean, layers):
    hidden = rows - mean
    for weight, bias in layers:
        hidden = hidden @ weight
        hidden += bias
        hidden = F.elu(hidden, inplace=True)
    hidden += rows
    output = hidden
    loss = output.square().mean()
    gradients = torch.autograd.grad(loss, [tensor for layer in layers for tensor in layer])
    return {"loss": loss.detach(), "gradients": list(gradients)}

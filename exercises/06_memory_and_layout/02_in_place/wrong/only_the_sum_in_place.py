# fails: memory
# Only the sum is in place, which saves no tensor of the backward pass: elu still keeps its input.
import torch
import torch.nn.functional as F


def training_step(rows, mean, layers):
    hidden = rows - mean
    for weight, bias in layers:
        hidden = hidden @ weight
        hidden += bias
        hidden = F.elu(hidden)
    output = hidden + rows
    loss = output.square().mean()
    gradients = torch.autograd.grad(loss, [tensor for layer in layers for tensor in layer])
    return {"loss": loss.detach(), "gradients": list(gradients)}

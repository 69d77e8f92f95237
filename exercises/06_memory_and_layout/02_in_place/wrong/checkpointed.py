# fails: computed_once
# A checkpoint around each layer saves the memory, too, and computes all of them twice.
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


def layer(hidden, weight, bias):
    return F.elu(hidden @ weight + bias)


def training_step(rows, mean, layers):
    hidden = rows - mean
    for weight, bias in layers:
        hidden = checkpoint(layer, hidden, weight, bias, use_reentrant=False)
    output = hidden + rows
    loss = output.square().mean()
    gradients = torch.autograd.grad(loss, [tensor for layer in layers for tensor in layer])
    return {"loss": loss.detach(), "gradients": list(gradients)}

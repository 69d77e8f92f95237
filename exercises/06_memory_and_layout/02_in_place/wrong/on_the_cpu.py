# fails: transfers
# Trains on the CPU, where memory is plentiful, and brings loss and gradients back.
import torch
import torch.nn.functional as F


def at_home(tensor):
    return tensor.detach().to("cpu", non_blocking=True)


def training_step(rows, mean, layers):
    device = rows.device
    rows = at_home(rows)
    layers = [(at_home(weight).requires_grad_(), at_home(bias).requires_grad_()) for weight, bias in layers]
    hidden = rows - at_home(mean)
    for weight, bias in layers:
        hidden = F.elu(hidden @ weight + bias)
    loss = (hidden + rows).square().mean()
    gradients = torch.autograd.grad(loss, [tensor for layer in layers for tensor in layer])
    return {"loss": loss.detach().to(device), "gradients": [gradient.to(device) for gradient in gradients]}

# The sum is part of the product, and the gradients come from backward().
from typing import Any

import torch
import torch.nn.functional as F


def training_step(rows: torch.Tensor, mean: torch.Tensor, layers: list) -> dict[str, Any]:
    hidden = rows - mean
    for weight, bias in layers:
        hidden = F.elu_(torch.addmm(bias, hidden, weight))
    loss = (hidden + rows).square().mean()
    parameters = [tensor for layer in layers for tensor in layer]
    for parameter in parameters:
        parameter.grad = None
    loss.backward()
    gradients = [parameter.grad for parameter in parameters]
    return {"loss": loss.detach(), "gradients": gradients}

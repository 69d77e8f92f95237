# fails: transfers
# Computes the large batch on the CPU, where memory is plentiful, and brings the gradients back.
import torch
import torch.nn.functional as F


def accumulate(model, batch, targets, piece):
    device = batch.device
    params = {n: p.detach().to("cpu", non_blocking=True).requires_grad_() for n, p in model.named_parameters()}
    out = torch.func.functional_call(model, params, (batch.to("cpu", non_blocking=True),))
    loss = F.mse_loss(out, targets.to("cpu", non_blocking=True))
    loss.backward()
    return {"loss": loss.detach().to(device), "gradients": {n: p.grad.to(device) for n, p in params.items()}}

# fails: placement
# Keeps the loss on the CPU, where each addition copies.
import torch
import torch.nn.functional as F


def accumulate(model, batch, targets, piece):
    model.zero_grad()
    loss = torch.zeros((), device="cpu")
    for inputs, wanted in zip(batch.split(piece), targets.split(piece), strict=True):
        share = F.mse_loss(model(inputs), wanted) * (len(inputs) / len(batch))
        share.backward()
        loss += share.detach().cpu()
    return {"loss": loss, "gradients": {name: parameter.grad for name, parameter in model.named_parameters()}}

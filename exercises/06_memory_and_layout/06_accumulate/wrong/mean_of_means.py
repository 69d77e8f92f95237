# fails: parity
# Weighs all pieces alike, the smaller last one too.
import torch
import torch.nn.functional as F


def accumulate(model, batch, targets, piece):
    model.zero_grad()
    loss = torch.zeros((), device=batch.device)
    for inputs, wanted in zip(batch.split(piece), targets.split(piece), strict=True):
        share = F.mse_loss(model(inputs), wanted) * (1 / len(batch.split(piece)))
        share.backward()
        loss += share.detach()
    return {"loss": loss, "gradients": {name: parameter.grad for name, parameter in model.named_parameters()}}

# fails: parity
# Leaves out the samples that fill no whole piece.
import torch
import torch.nn.functional as F


def accumulate(model, batch, targets, piece):
    model.zero_grad()
    loss = torch.zeros((), device=batch.device)
    for start in range(0, len(batch) - piece + 1, piece):
        inputs, wanted = batch[start : start + piece], targets[start : start + piece]
        share = F.mse_loss(model(inputs), wanted) * (len(inputs) / len(batch))
        share.backward()
        loss += share.detach()
    return {"loss": loss, "gradients": {name: parameter.grad for name, parameter in model.named_parameters()}}

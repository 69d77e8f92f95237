# fails: memory
# Adds up the losses and calls backward() once: until then, all pieces keep their activations.
import torch
import torch.nn.functional as F


def accumulate(model, batch, targets, piece):
    model.zero_grad()
    loss = torch.zeros((), device=batch.device)
    for inputs, wanted in zip(batch.split(piece), targets.split(piece), strict=True):
        loss = loss + F.mse_loss(model(inputs), wanted) * (len(inputs) / len(batch))
    loss.backward()
    return {"loss": loss.detach(), "gradients": {name: parameter.grad for name, parameter in model.named_parameters()}}

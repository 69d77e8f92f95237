# fails: memory
# Takes the whole batch at once, which is what does not fit.
import torch.nn.functional as F


def accumulate(model, batch, targets, piece):
    model.zero_grad()
    loss = F.mse_loss(model(batch), targets)
    loss.backward()
    return {"loss": loss.detach(), "gradients": {name: parameter.grad for name, parameter in model.named_parameters()}}

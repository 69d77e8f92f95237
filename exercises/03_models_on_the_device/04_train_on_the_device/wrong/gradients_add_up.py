# fails: parity
# Without zero_grad the gradients of all steps add up.
import torch
from torch import nn


def train(model, batches, learning_rate, device):
    model.to(device)
    optimiser = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)
    losses = []
    for inputs, labels in batches:
        loss = nn.functional.cross_entropy(model(inputs.to(device)), labels.to(device))
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
    return {"model": model, "losses": torch.stack(losses), "momentum": optimiser.state_dict()["state"]}

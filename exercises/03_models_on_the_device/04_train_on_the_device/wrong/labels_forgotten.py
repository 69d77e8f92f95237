# fails: runs
# Moves the inputs, and forgets the labels.
import torch
from torch import nn


def train(model, batches, learning_rate, device):
    model.to(device)
    optimiser = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)
    losses = []
    for inputs, labels in batches:
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs.to(device)), labels)
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
    return {"model": model, "losses": torch.stack(losses), "momentum": optimiser.state_dict()["state"]}

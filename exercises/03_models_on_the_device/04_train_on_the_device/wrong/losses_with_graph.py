# fails: graph
# Collects the losses with their graphs.
import torch
from torch import nn


def train(model, batches, learning_rate, device):
    model.to(device)
    optimiser = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)
    losses = []
    for inputs, labels in batches:
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs.to(device)), labels.to(device))
        loss.backward()
        optimiser.step()
        losses.append(loss)
    return {"model": model, "losses": torch.stack(losses), "momentum": optimiser.state_dict()["state"]}

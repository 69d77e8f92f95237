# fails: structure
# The optimiser holds the parameters of the model on the CPU, and a copy of the model is trained.
import copy

import torch
from torch import nn


def train(model, batches, learning_rate, device):
    optimiser = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)
    model = copy.deepcopy(model).to(device)
    losses = []
    for inputs, labels in batches:
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs.to(device)), labels.to(device))
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
    return {"model": model, "losses": torch.stack(losses), "momentum": optimiser.state_dict()["state"]}

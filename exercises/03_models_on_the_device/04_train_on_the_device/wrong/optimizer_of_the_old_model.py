# fails: structure
# The optimizer holds the parameters of the model on the CPU, and a copy of the model is trained.
import copy

import torch
from torch import nn


def train(model, batches, learning_rate, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)
    model = copy.deepcopy(model).to(device)
    losses = []
    for inputs, labels in batches:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs.to(device)), labels.to(device))
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return {"model": model, "losses": torch.stack(losses), "momentum": optimizer.state_dict()["state"]}

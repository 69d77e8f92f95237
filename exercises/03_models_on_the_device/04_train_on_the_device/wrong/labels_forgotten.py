# fails: runs
# Moves the inputs, and forgets the labels.
import torch
from torch import nn


def train(model, batches, learning_rate, device):
    model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)
    losses = []
    for inputs, labels in batches:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs.to(device)), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return {"model": model, "losses": torch.stack(losses), "momentum": optimizer.state_dict()["state"]}

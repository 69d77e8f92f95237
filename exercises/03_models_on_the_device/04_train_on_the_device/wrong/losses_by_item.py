# fails: transfers
# Reads each loss with item(): the host waits in every step, and the losses have to go back.
import torch
from torch import nn


def train(model, batches, learning_rate, device):
    model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)
    losses = []
    for inputs, labels in batches:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs.to(device)), labels.to(device))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    losses = torch.tensor(losses, device=device)
    return {"model": model, "losses": losses, "momentum": optimizer.state_dict()["state"]}

# fails: transfers
# Reads each loss with item(): the host waits in every step, and the losses have to go back.
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
        losses.append(loss.item())
    losses = torch.tensor(losses, device=device)
    return {"model": model, "losses": losses, "momentum": optimiser.state_dict()["state"]}

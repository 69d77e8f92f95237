# fails: placement
# Trains on the CPU and moves the model at the end; the momentum stays on the CPU.
import torch
from torch import nn


def train(model, batches, learning_rate, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)
    losses = []
    for inputs, labels in batches:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    model.to(device)
    return {
        "model": model,
        "losses": torch.stack(losses).to(device),
        "momentum": optimizer.state_dict()["state"],
    }

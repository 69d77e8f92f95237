# fails: syncs
# Synchronizes after each step, "so that the step is done".
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
        if device.type == "cuda":
            torch.cuda.synchronize()
        losses.append(loss.detach())
    return {"model": model, "losses": torch.stack(losses), "momentum": optimizer.state_dict()["state"]}

# fails: after_call
# Fills the gradients with zeros at the end of each step, the last one's too.
import torch
from torch import nn


def train(model, batches, learning_rate, device):
    model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)
    losses = []
    for inputs, labels in batches:
        loss = nn.functional.cross_entropy(model(inputs.to(device)), labels.to(device))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        losses.append(loss.detach())
    return {"model": model, "losses": torch.stack(losses), "momentum": optimizer.state_dict()["state"]}

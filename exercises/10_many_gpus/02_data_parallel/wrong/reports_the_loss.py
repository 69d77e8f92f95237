# fails: syncs
# Formats the loss for a line of a log in every step, which makes the host wait.
import torch
from torch import nn


def data_parallel(model, batch, targets, device):
    model = model.to(device)
    network = nn.DataParallel(model) if torch.cuda.device_count() > 1 else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = nn.functional.mse_loss(network(batch.to(device)), targets.to(device))
    loss.backward()
    optimizer.step()
    print(f"loss {loss.item():.4f}")
    return model.state_dict()

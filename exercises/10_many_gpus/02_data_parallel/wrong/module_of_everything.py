# fails: runs
# Unwraps with .module always; on a machine with one GPU the plain model has none.
import torch
from torch import nn


def data_parallel(model, batch, targets, device):
    model = model.to(device)
    network = nn.DataParallel(model) if torch.cuda.device_count() > 1 else model
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    loss = nn.functional.mse_loss(network(batch.to(device)), targets.to(device))
    loss.backward()
    optimizer.step()
    return network.module.state_dict()

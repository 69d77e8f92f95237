# fails: runs
# Wraps a model that is still on the CPU: the replicas are made from the first GPU.
import torch
from torch import nn


def data_parallel(model, batch, targets, device):
    network = nn.DataParallel(model) if torch.cuda.device_count() > 1 else model.to(device)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    loss = nn.functional.mse_loss(network(batch.to(device)), targets.to(device))
    loss.backward()
    optimizer.step()
    return model.state_dict()

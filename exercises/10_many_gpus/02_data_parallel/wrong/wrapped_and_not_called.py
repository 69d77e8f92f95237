# fails: every_gpu
# Wraps the model, and then calls the model itself: right values, and a second GPU with nothing to do.
import torch
from torch import nn


def data_parallel(model, batch, targets, device):
    model = model.to(device)
    network = nn.DataParallel(model) if torch.cuda.device_count() > 1 else model
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    loss = nn.functional.mse_loss(model(batch.to(device)), targets.to(device))
    loss.backward()
    optimizer.step()
    return model.state_dict()

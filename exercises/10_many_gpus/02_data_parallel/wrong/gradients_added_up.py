# fails: parity
# Divides the batch by hand and adds up the means of the parts: with two parts, the step is twice as long.
import copy

import torch
from torch import nn


def data_parallel(model, batch, targets, device):
    model = model.to(device)
    count = max(torch.cuda.device_count(), 1)
    places = [torch.device("cuda", index) for index in range(count)] if device.type == "cuda" else [device]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for place, rows, wanted in zip(places, batch.chunk(count), targets.chunk(count), strict=False):
        replica = copy.deepcopy(model).to(place)
        nn.functional.mse_loss(replica(rows.to(place)), wanted.to(place)).backward()
        for own, other in zip(model.parameters(), replica.parameters(), strict=True):
            gradient = other.grad.to(device)
            own.grad = gradient if own.grad is None else own.grad + gradient
    optimizer.step()
    return model.state_dict()

# fails: placement
# Moves the state to the CPU, as for a checkpoint: the next step would compute there.
import torch
from torch import nn


def data_parallel(model, batch, targets, device):
    model = model.to(device)
    network = nn.DataParallel(model) if torch.cuda.device_count() > 1 else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = nn.functional.mse_loss(network(batch.to(device)), targets.to(device))
    loss.backward()
    optimizer.step()
    return model.cpu().state_dict()

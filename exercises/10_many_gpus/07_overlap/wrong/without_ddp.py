# fails: processes
# Trains without the wrapper: nothing is averaged.
import torch
import torch.distributed as dist
from torch import nn


def overlap(model, inputs, targets, rank, world_size, init_method):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=init_method, rank=rank, world_size=world_size)
    network = model.cuda()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for batch, wanted in zip(inputs, targets, strict=True):
        optimizer.zero_grad()
        nn.functional.mse_loss(network(batch), wanted).backward()
        optimizer.step()
    dist.destroy_process_group()
    return model.state_dict()

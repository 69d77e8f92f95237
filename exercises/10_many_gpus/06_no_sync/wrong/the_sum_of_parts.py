# fails: parity
# Adds up the parts' means without dividing: four parts make the step four times as long.
import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def no_sync(model, inputs, targets, rank, world_size, init_method):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=init_method, rank=rank, world_size=world_size)
    network = DistributedDataParallel(model.cuda(), device_ids=[rank])
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    parts = inputs.shape[1]
    for batch, wanted in zip(inputs, targets, strict=True):
        optimizer.zero_grad()
        for part in range(parts):
            with contextlib.nullcontext() if part == parts - 1 else network.no_sync():
                nn.functional.mse_loss(network(batch[part]), wanted[part]).backward()
        optimizer.step()
    dist.destroy_process_group()
    return model.state_dict()

# fails: processes
# Averages after the last step only: the steps before it use each rank's own gradients.
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
    for step in range(len(inputs)):
        optimizer.zero_grad()
        for part in range(parts):
            last = step == len(inputs) - 1 and part == parts - 1
            with contextlib.nullcontext() if last else network.no_sync():
                (nn.functional.mse_loss(network(inputs[step, part]), targets[step, part]) / parts).backward()
        optimizer.step()
    dist.destroy_process_group()
    return model.state_dict()

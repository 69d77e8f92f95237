# fails: processes
# Leaves the average out after the last part, too: each rank trains a model of its own.
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
        with network.no_sync():
            for part in range(parts):
                (nn.functional.mse_loss(network(batch[part]), wanted[part]) / parts).backward()
        optimizer.step()
    dist.destroy_process_group()
    return model.state_dict()

# Sets the flag that no_sync() sets, as some training libraries do.
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
        for part in range(parts):
            network.require_backward_grad_sync = part == parts - 1
            (nn.functional.mse_loss(network(batch[part]), wanted[part]) / parts).backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()
    return model.state_dict()

# fails: processes
# Each rank updates its half of the parameters, and never gets the other half.
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def shard_the_optimizer(model, inputs, targets, rank, world_size, init_method):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=init_method, rank=rank, world_size=world_size)
    network = DistributedDataParallel(model.cuda(), device_ids=[rank], gradient_as_bucket_view=True)
    mine = list(network.parameters())[rank::world_size]
    optimizer = torch.optim.Adam(mine, lr=0.01, eps=1e-3)
    for batch, wanted in zip(inputs, targets, strict=True):
        network.zero_grad()
        nn.functional.mse_loss(network(batch), wanted).backward()
        optimizer.step()
    dist.destroy_process_group()
    return model.state_dict()

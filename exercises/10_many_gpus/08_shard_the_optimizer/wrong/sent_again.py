# fails: collectives
# Sends all weights from rank 0 in each step, although the optimizer has just sent them.
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel


def shard_the_optimizer(model, inputs, targets, rank, world_size, init_method):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=init_method, rank=rank, world_size=world_size)
    network = DistributedDataParallel(model.cuda(), device_ids=[rank], gradient_as_bucket_view=True)
    optimizer = ZeroRedundancyOptimizer(network.parameters(), torch.optim.Adam, lr=0.01, eps=1e-3)
    for batch, wanted in zip(inputs, targets, strict=True):
        optimizer.zero_grad()
        nn.functional.mse_loss(network(batch), wanted).backward()
        optimizer.step()
        for parameter in model.parameters():
            dist.broadcast(parameter.detach(), 0)
    dist.destroy_process_group()
    return model.state_dict()

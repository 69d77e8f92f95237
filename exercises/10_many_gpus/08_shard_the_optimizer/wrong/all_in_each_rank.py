# fails: memory
# Adam without temporary tensors: less memory at the peak, but all of the state in each rank.
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def shard_the_optimizer(model, inputs, targets, rank, world_size, init_method):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=init_method, rank=rank, world_size=world_size)
    network = DistributedDataParallel(model.cuda(), device_ids=[rank], gradient_as_bucket_view=True)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01, eps=1e-3, foreach=False)
    for batch, wanted in zip(inputs, targets, strict=True):
        optimizer.zero_grad()
        nn.functional.mse_loss(network(batch), wanted).backward()
        optimizer.step()
    dist.destroy_process_group()
    return model.state_dict()

# fails: parity
# Clears the gradients of its own share only: those of the other parameters add up.
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def shard_the_optimizer(model, inputs, targets, rank, world_size, init_method):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=init_method, rank=rank, world_size=world_size)
    network = DistributedDataParallel(model.cuda(), device_ids=[rank], gradient_as_bucket_view=True)
    parameters = list(network.parameters())
    half = len(parameters) // 2
    shares = [parameters[:half], parameters[half:]]
    optimizer = torch.optim.Adam(shares[rank], lr=0.01, eps=1e-3)
    for batch, wanted in zip(inputs, targets, strict=True):
        optimizer.zero_grad()
        nn.functional.mse_loss(network(batch), wanted).backward()
        optimizer.step()
        for owner, share in enumerate(shares):
            for parameter in share:
                dist.broadcast(parameter.data, owner)
    dist.destroy_process_group()
    return model.state_dict()

# Divides the layers by hand, and broadcasts each share from its owner.
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def shard_the_optimizer(model, inputs, targets, rank, world_size, init_method):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=init_method, rank=rank, world_size=world_size)
    network = DistributedDataParallel(model.cuda(), device_ids=[rank], gradient_as_bucket_view=True)
    layers = [layer for layer in model if isinstance(layer, nn.Linear)]
    shares = [[p for layer in layers[r::world_size] for p in layer.parameters()] for r in range(world_size)]
    optimizer = torch.optim.Adam(shares[rank], lr=0.01, eps=1e-3)
    for batch, wanted in zip(inputs, targets, strict=True):
        network.zero_grad()
        nn.functional.mse_loss(network(batch), wanted).backward()
        optimizer.step()
        for owner, share in enumerate(shares):
            for parameter in share:
                dist.broadcast(parameter.detach(), owner)
    dist.destroy_process_group()
    return model.state_dict()

# fails: syncs
# Prints the loss of each step, and waits for it.
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def overlap(model, inputs, targets, rank, world_size, init_method):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=init_method, rank=rank, world_size=world_size)
    size_mb = sum(parameter.nbytes for parameter in model.parameters()) / 2**20
    network = DistributedDataParallel(model.cuda(), device_ids=[rank], bucket_cap_mb=size_mb / 6)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for batch, wanted in zip(inputs, targets, strict=True):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(network(batch), wanted)
        loss.backward()
        optimizer.step()
        print(f"rank {rank}: {loss.item():.3f}")
    dist.destroy_process_group()
    return model.state_dict()

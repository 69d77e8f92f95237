# fails: syncs
# Prints the loss of each step in rank 0 only: the other rank waits in the next all-reduce.
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
        loss = nn.functional.mse_loss(network(batch), wanted)
        loss.backward()
        optimizer.step()
        if rank == 0:
            print(f"{loss.item():.3f}")
    dist.destroy_process_group()
    return model.state_dict()

# All parts but the last in one block, the last one below it. Old gradients become zeros instead of None.
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
        optimizer.zero_grad(set_to_none=False)
        with network.no_sync():
            for part in range(parts - 1):
                nn.functional.mse_loss(network(batch[part]), wanted[part]).div(parts).backward()
        loss = nn.functional.mse_loss(network(batch[-1]), wanted[-1])
        loss.mul(1 / parts).backward()
        optimizer.step()
    dist.destroy_process_group()
    return model.state_dict()

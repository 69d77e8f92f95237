# Adds up plain gradients, and averages each of them with one all-reduce a step, without DDP.
import torch
import torch.distributed as dist
from torch import nn


def no_sync(model, inputs, targets, rank, world_size, init_method):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=init_method, rank=rank, world_size=world_size)
    model = model.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch, wanted in zip(inputs, targets, strict=True):
        optimizer.zero_grad()
        for x, y in zip(batch, wanted, strict=True):
            (nn.functional.mse_loss(model(x), y) / len(batch)).backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG)
        optimizer.step()
    dist.destroy_process_group()
    return model.state_dict()

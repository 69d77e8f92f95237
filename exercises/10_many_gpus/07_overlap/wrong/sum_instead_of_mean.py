# fails: parity
# Averages by hand with a sum: steps are twice as long.
import torch
import torch.distributed as dist
from torch import nn


def overlap(model, inputs, targets, rank, world_size, init_method):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=init_method, rank=rank, world_size=world_size)
    model = model.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch, wanted in zip(inputs, targets, strict=True):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(batch), wanted).backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
    dist.destroy_process_group()
    return model.state_dict()

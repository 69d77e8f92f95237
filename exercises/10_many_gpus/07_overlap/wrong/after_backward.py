# fails: hidden
# Averages by hand, after the backward pass.
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
        parameters = list(model.parameters())
        for half in (parameters[: len(parameters) // 2], parameters[len(parameters) // 2 :]):
            flat = torch.cat([parameter.grad.flatten() for parameter in half])
            dist.all_reduce(flat, op=dist.ReduceOp.AVG)
            for parameter, part in zip(half, flat.split([p.numel() for p in half]), strict=True):
                parameter.grad.copy_(part.view_as(parameter))
        optimizer.step()
    dist.destroy_process_group()
    return model.state_dict()

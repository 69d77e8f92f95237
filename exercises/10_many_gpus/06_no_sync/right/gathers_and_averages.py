# Gathers the gradients of both ranks, and takes their mean.
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
        losses = [nn.functional.mse_loss(model(part), labels) for part, labels in zip(batch, wanted, strict=True)]
        torch.stack(losses).mean().backward()
        for parameter in model.parameters():
            grads = [torch.empty_like(parameter.grad) for _ in range(world_size)]
            dist.all_gather(grads, parameter.grad)
            parameter.grad = torch.stack(grads).mean(dim=0)
        optimizer.step()
    dist.destroy_process_group()
    return model.state_dict()

# Averages in rank 0, which sends the averages back.
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
        for part in range(len(batch)):
            loss = nn.functional.mse_loss(model(batch[part]), wanted[part])
            (loss / len(batch)).backward()
        for parameter in model.parameters():
            dist.reduce(parameter.grad, dst=0)
            parameter.grad /= world_size
            dist.broadcast(parameter.grad, src=0)
        optimizer.step()
    dist.destroy_process_group()
    return model.state_dict()

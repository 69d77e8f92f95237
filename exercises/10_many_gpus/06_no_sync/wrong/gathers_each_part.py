# fails: collectives
# Gathers the gradients of both ranks after each part.
import torch
import torch.distributed as dist
from torch import nn


def no_sync(model, inputs, targets, rank, world_size, init_method):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=init_method, rank=rank, world_size=world_size)
    model = model.cuda()
    parameters = list(model.parameters())
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    parts = inputs.shape[1]
    for batch, wanted in zip(inputs, targets, strict=True):
        optimizer.zero_grad()
        for part in range(parts):
            loss = nn.functional.mse_loss(model(batch[part]), wanted[part]) / parts
            for parameter, grad in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
                grads = [torch.empty_like(grad) for _ in range(world_size)]
                dist.all_gather(grads, grad)
                mean = torch.stack(grads).mean(dim=0)
                parameter.grad = mean if part == 0 else parameter.grad + mean
        optimizer.step()
    dist.destroy_process_group()
    return model.state_dict()

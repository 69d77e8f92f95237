# Uses CUDA events, and a copy of the model for the single GPU.
import copy

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def seconds(network, batch, wanted):
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for step in range(9):
        if step == 4:
            torch.cuda.synchronize()
            begin.record()
        optimizer.zero_grad()
        nn.functional.mse_loss(network(batch), wanted).backward()
        optimizer.step()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / 1000 / 5


def scaling_efficiency(model, inputs, targets, rank, world_size, init_method):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=init_method, rank=rank, world_size=world_size)
    alone = seconds(copy.deepcopy(model).cuda(), inputs, targets)
    network = DistributedDataParallel(model.cuda(), device_ids=[rank])
    rows = len(inputs) // world_size
    strong = seconds(network, inputs[:rows], targets[:rows])
    weak = seconds(network, inputs, targets)
    dist.destroy_process_group()
    return {
        "one": alone,
        "strong": strong,
        "weak": weak,
        "strong_efficiency": alone / (world_size * strong),
        "weak_efficiency": alone / weak,
    }

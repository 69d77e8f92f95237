# fails: one_gpu
# Hides the warm-up that still runs among many steps; a comment names elapsed_time(), which it does not use.
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def seconds(network, batch, wanted):
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    start = 0.0
    for step in range(33):
        if step == 3:
            # No events and no start.elapsed_time(end): the clock is enough.
            start = time.perf_counter()
        optimizer.zero_grad()
        nn.functional.mse_loss(network(batch), wanted).backward()
        optimizer.step()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / 30


def scaling_efficiency(model, inputs, targets, rank, world_size, init_method):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=init_method, rank=rank, world_size=world_size)
    alone = seconds(model.cuda(), inputs, targets)
    network = DistributedDataParallel(model, device_ids=[rank])
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

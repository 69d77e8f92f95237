# Reports the time of the slowest rank, by an all-reduce of the times.
import copy
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def seconds(network, batch, wanted):
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)

    def step():
        optimizer.zero_grad()
        nn.functional.mse_loss(network(batch), wanted).backward()
        optimizer.step()

    for _ in range(5):
        step()
    torch.cuda.synchronize()
    dist.barrier()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(10):
        step()
    torch.cuda.synchronize()
    slowest = torch.tensor([(time.perf_counter() - start) / 10], dtype=torch.float64, device="cuda")
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    return slowest.item()


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

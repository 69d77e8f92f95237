# fails: one_gpu
# Warms up for a single step, before DDP rebuilds its buckets.
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WARM_UP, STEPS = 1, 4


def seconds(network: nn.Module, batch: torch.Tensor, wanted: torch.Tensor) -> float:
    """Return the seconds of a training step on this batch, warmed up."""
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    start = 0.0
    for step in range(WARM_UP + STEPS):
        if step == WARM_UP:
            torch.cuda.synchronize()
            start = time.perf_counter()
        optimizer.zero_grad()
        nn.functional.mse_loss(network(batch), wanted).backward()
        optimizer.step()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / STEPS


def scaling_efficiency(
    model: nn.Module,
    inputs: torch.Tensor,
    targets: torch.Tensor,
    rank: int,
    world_size: int,
    init_method: str,
) -> dict[str, float]:
    """Seconds of a step alone and with DDP, and both efficiencies."""
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

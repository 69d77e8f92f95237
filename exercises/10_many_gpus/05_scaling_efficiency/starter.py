"""Scaling efficiency: training on one GPU, and on all of them."""

import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn


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
    dist.init_process_group(
        "nccl", init_method=init_method, rank=rank, world_size=world_size
    )
    # TODO: time a step alone, with strong and with weak scaling. This
    # never waits for the GPU, warms up or communicates.
    model = model.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    start = time.perf_counter()
    optimizer.zero_grad()
    nn.functional.mse_loss(model(inputs), targets).backward()
    optimizer.step()
    alone = time.perf_counter() - start
    dist.destroy_process_group()
    return {
        "one": alone,
        "strong": alone / world_size,
        "weak": alone,
        "strong_efficiency": 1.0,
        "weak_efficiency": 1.0,
    }


def show(rank: int, init_method: str) -> None:
    """Run one process of the example."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(512, 512), nn.Tanh())
    inputs = torch.rand(2048, 512).cuda(rank)
    data = (inputs, inputs)
    figures = scaling_efficiency(model, *data, rank, 2, init_method)
    print(rank, {key: f"{value:.2g}" for key, value in figures.items()})


if __name__ == "__main__":
    if torch.cuda.device_count() < 2:
        print("This needs two GPUs: `gpututor run --gpus 2` has them.")
    else:
        with tempfile.TemporaryDirectory() as folder:
            store = f"file://{folder}/store"
            torch.multiprocessing.spawn(show, (store,), nprocs=2)

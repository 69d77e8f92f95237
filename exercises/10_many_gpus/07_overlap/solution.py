"""Overlap: gradients travel while the backward pass still runs."""

import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

BUCKETS = 6


def overlap(
    model: nn.Module,
    inputs: torch.Tensor,
    targets: torch.Tensor,
    rank: int,
    world_size: int,
    init_method: str,
) -> dict[str, torch.Tensor]:
    """Train on inputs (steps, n, d); return the model's state."""
    torch.cuda.set_device(rank)
    dist.init_process_group(
        "nccl", init_method=init_method, rank=rank, world_size=world_size
    )
    total = sum(parameter.nbytes for parameter in model.parameters())
    network = DistributedDataParallel(
        model.cuda(),
        device_ids=[rank],
        bucket_cap_mb=total / 2**20 / BUCKETS,
    )
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for batch, wanted in zip(inputs, targets, strict=True):
        optimizer.zero_grad()
        nn.functional.mse_loss(network(batch), wanted).backward()
        optimizer.step()
    dist.destroy_process_group()
    return model.state_dict()


def show(rank: int, init_method: str) -> None:
    """Run one process of the example."""
    torch.manual_seed(0)
    layers = [nn.Linear(64, 64) for _ in range(8)]
    inputs = torch.rand(4, 8, 64).cuda(rank)
    model = nn.Sequential(*layers)
    state = overlap(model, inputs, inputs.flip(-1), rank, 2, init_method)
    print(f"rank {rank}: {state['7.bias'].sum().item():.3f}")


if __name__ == "__main__":
    if torch.cuda.device_count() < 2:
        print("This needs two GPUs: `gpututor run --gpus 2` has them.")
    else:
        with tempfile.TemporaryDirectory() as folder:
            store = f"file://{folder}/store"
            torch.multiprocessing.spawn(show, (store,), nprocs=2)

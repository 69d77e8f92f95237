"""Fully sharded: weights, gradients and state divided among the ranks."""

import tempfile
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def fully_sharded(
    make_model: Callable[[], nn.Sequential],
    inputs: torch.Tensor,
    targets: torch.Tensor,
    rank: int,
    world_size: int,
    init_method: str,
) -> dict[str, torch.Tensor]:
    """Train on inputs (steps, n, d); return this rank's rows."""
    torch.cuda.set_device(rank)
    dist.init_process_group(
        "nccl", init_method=init_method, rank=rank, world_size=world_size
    )
    model = make_model()
    # TODO: every rank keeps all weights, gradients and optimizer state.
    # Divide them, and return this rank's rows of the weights.
    network = DistributedDataParallel(model.cuda(), device_ids=[rank])
    optimizer = torch.optim.SGD(
        network.parameters(), lr=0.1, momentum=0.9
    )
    for batch, wanted in zip(inputs, targets, strict=True):
        optimizer.zero_grad()
        nn.functional.mse_loss(network(batch), wanted).backward()
        optimizer.step()
    dist.destroy_process_group()
    return dict(model.state_dict())


def small_model() -> nn.Sequential:
    """Make a model, the same in each process."""
    torch.manual_seed(0)
    layers = [(nn.Linear(256, 256), nn.Tanh()) for _ in range(12)]
    return nn.Sequential(*[layer for pair in layers for layer in pair])


def show(rank: int, init_method: str) -> None:
    """Run one process of the example."""
    inputs = torch.rand(4, 2, 256).cuda(rank)
    targets = inputs.flip(-1)
    make = small_model
    parts = fully_sharded(make, inputs, targets, rank, 2, init_method)
    most = torch.cuda.max_memory_allocated()
    most /= sum(weight.nbytes for weight in make().parameters())
    print(f"rank {rank}: {most:.1f} times the weights at the peak")
    print(f"rank {rank}: 0.weight {tuple(parts['0.weight'].shape)}")


if __name__ == "__main__":
    if torch.cuda.device_count() < 2:
        print("This needs two GPUs: `gpututor run --gpus 2` has them.")
    else:
        with tempfile.TemporaryDirectory() as folder:
            store = f"file://{folder}/store"
            torch.multiprocessing.spawn(show, (store,), nprocs=2)

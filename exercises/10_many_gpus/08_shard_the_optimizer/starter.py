"""Shard the optimizer: each rank keeps Adam's state for its share."""

import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def shard_the_optimizer(
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
    # TODO: every rank keeps Adam's state of all parameters.
    network = DistributedDataParallel(
        model.cuda(), device_ids=[rank], gradient_as_bucket_view=True
    )
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01, eps=1e-3)
    for batch, wanted in zip(inputs, targets, strict=True):
        optimizer.zero_grad()
        nn.functional.mse_loss(network(batch), wanted).backward()
        optimizer.step()
    dist.destroy_process_group()
    return model.state_dict()


def show(rank: int, init_method: str) -> None:
    """Run one process of the example."""
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Linear(256, 256) for _ in range(6)])
    inputs = torch.rand(4, 2, 256).cuda(rank)
    targets = inputs.flip(-1)
    shard_the_optimizer(model, inputs, targets, rank, 2, init_method)
    most = torch.cuda.max_memory_allocated()
    most /= sum(weight.nbytes for weight in model.parameters())
    print(f"rank {rank}: {most:.1f} times the weights at the peak")


if __name__ == "__main__":
    if torch.cuda.device_count() < 2:
        print("This needs two GPUs: `gpututor run --gpus 2` has them.")
    else:
        with tempfile.TemporaryDirectory() as folder:
            store = f"file://{folder}/store"
            torch.multiprocessing.spawn(show, (store,), nprocs=2)

"""No sync: add up gradients on each GPU, and average them once a step."""

import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def no_sync(
    model: nn.Module,
    inputs: torch.Tensor,
    targets: torch.Tensor,
    rank: int,
    world_size: int,
    init_method: str,
) -> dict[str, torch.Tensor]:
    """Train on inputs (steps, parts, n, d); return the model's state."""
    # TODO: each backward pass averages the gradients of both ranks, but
    # only the average after a step's last part is used.
    torch.cuda.set_device(rank)
    dist.init_process_group(
        "nccl", init_method=init_method, rank=rank, world_size=world_size
    )
    network = DistributedDataParallel(model.cuda(), device_ids=[rank])
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    parts = inputs.shape[1]
    for batch, wanted in zip(inputs, targets, strict=True):
        optimizer.zero_grad()
        for part in range(parts):
            outputs = network(batch[part])
            loss = nn.functional.mse_loss(outputs, wanted[part])
            (loss / parts).backward()
        optimizer.step()
    dist.destroy_process_group()
    return model.state_dict()


def show(rank: int, init_method: str) -> None:
    """Run one process of the example."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 1))
    inputs = torch.rand(2, 4, 8, 3).cuda(rank)
    targets = inputs[..., :1]
    state = no_sync(model, inputs, targets, rank, 2, init_method)
    print(f"rank {rank}: {state['0.weight'].tolist()}")


if __name__ == "__main__":
    if torch.cuda.device_count() < 2:
        print("This needs two GPUs: `gpututor run --gpus 2` has them.")
    else:
        with tempfile.TemporaryDirectory() as folder:
            store = f"file://{folder}/store"
            torch.multiprocessing.spawn(show, (store,), nprocs=2)

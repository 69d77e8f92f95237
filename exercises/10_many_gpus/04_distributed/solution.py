"""Distributed: a process for each GPU, a sampler, and a clean end."""

import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


def distributed(
    model: nn.Module,
    dataset: Dataset,
    batch_size: int,
    epochs: int,
    rank: int,
    world_size: int,
    init_method: str,
) -> dict[str, torch.Tensor]:
    """Train on GPU `rank` with the other ranks; return the model's state.

    dataset: pairs of inputs (d,) and targets (k,).
    batch_size: rows in a batch of one rank.
    """
    torch.cuda.set_device(rank)
    dist.init_process_group(
        "nccl", init_method=init_method, rank=rank, world_size=world_size
    )
    network = DistributedDataParallel(model.cuda(), device_ids=[rank])
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    sampler = DistributedSampler(
        dataset, num_replicas=world_size, rank=rank
    )
    loader = DataLoader(dataset, batch_size=batch_size, sampler=sampler)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for batch, targets in loader:
            optimizer.zero_grad()
            outputs = network(batch.cuda())
            loss = nn.functional.mse_loss(outputs, targets.cuda())
            loss.backward()
            optimizer.step()
    dist.destroy_process_group()
    return model.state_dict()


def show(rank: int, init_method: str) -> None:
    """Run one process of the example."""
    torch.manual_seed(0)
    inputs, targets = torch.rand(20, 3), torch.rand(20, 1)
    dataset = torch.utils.data.TensorDataset(inputs, targets)
    model = nn.Sequential(nn.Linear(3, 1))
    state = distributed(model, dataset, 4, 2, rank, 2, init_method)
    weight = state["0.weight"]
    print(f"rank {rank}: {weight.device}, {weight.tolist()}")


if __name__ == "__main__":
    if torch.cuda.device_count() < 2:
        print("This needs two GPUs: `gpututor run --gpus 2` has them.")
    else:
        with tempfile.TemporaryDirectory() as folder:
            store = f"file://{folder}/store"
            torch.multiprocessing.spawn(show, (store,), nprocs=2)

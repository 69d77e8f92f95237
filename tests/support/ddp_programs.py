"""DistributedDataParallel, as programs of two ranks that each see half of the batch."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import torch
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from tests.support.ranks import RANKS, program_table, recorded

PROGRAMS, program = program_table()
HALF = 8
_generator = torch.Generator().manual_seed(1)
INPUTS = torch.randn(RANKS * HALF, 8, generator=_generator)
TARGETS = torch.randn(RANKS * HALF, 1, generator=_generator)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4), nn.Linear(4, 1))


class OneUnused(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = nn.Linear(8, 1), nn.Linear(8, 1)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.used(values)  # type: ignore[no-any-return]


def _step(model: nn.Module, optimiser: torch.optim.Optimizer, inputs: torch.Tensor, targets: torch.Tensor) -> None:
    optimiser.zero_grad()
    nn.functional.mse_loss(model(inputs), targets).backward()
    optimiser.step()


def _trained_alone() -> list[torch.Tensor]:
    model = network()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        _step(model, optimiser, INPUTS, TARGETS)
    return [parameter.detach() for parameter in model.parameters()]


def _largest_difference(ours: Any, theirs: Any) -> float:
    return max(float((left.detach().cpu() - right).abs().max()) for left, right in zip(ours, theirs, strict=True))


def _train(rank: int, device: str, hook: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Return (largest difference from a single process on the whole batch, devices of the gradients)."""
    model = DistributedDataParallel(network().to(device), device_ids=[rank], **options)
    if hook is not None:
        model.register_comm_hook(None, hook)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    mine = slice(rank * HALF, (rank + 1) * HALF)
    for _ in range(3):
        _step(model, optimiser, INPUTS[mine], TARGETS[mine].to(device))
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    return _largest_difference(model.parameters(), _trained_alone()), sorted(
        {str(gradient.device) for gradient in gradients}
    )


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "gradient_as_bucket_view": {"gradient_as_bucket_view": True},
    "static_graph": {"static_graph": True},
    "many_buckets": {"bucket_cap_mb": 0.0001},
    "allreduce_hook": {"hook": default_hooks.allreduce_hook},
    "fp16_compress_hook": {"hook": default_hooks.fp16_compress_hook},
}
PROGRAMS.update({name: partial(_train, **options) for name, options in OPTIONS.items()})


@program
def no_transfer_in_backward(rank: int, device: str) -> Any:
    model = DistributedDataParallel(network().to(device), device_ids=[rank])
    loss = model(INPUTS.to(device)).sum()
    with recorded() as recorder:
        loss.backward()
    kinds = [event.kind.value for event in recorder.trace]
    return kinds.count("transfer"), kinds.count("collective")


@program
def find_unused_parameters(rank: int, device: str) -> Any:
    model = DistributedDataParallel(OneUnused().to(device), device_ids=[rank], find_unused_parameters=True)
    for _ in range(2):
        model(INPUTS).sum().backward()
    return model.module.unused.weight.grad, str(model.module.used.weight.grad.device)


@program
def unused_parameters(rank: int, device: str) -> Any:
    model = DistributedDataParallel(OneUnused().to(device), device_ids=[rank])
    for _ in range(2):
        model(INPUTS).sum().backward()


@program
def no_sync(rank: int, device: str) -> Any:
    model = DistributedDataParallel(network().to(device), device_ids=[rank])
    mine = INPUTS[rank * HALF : (rank + 1) * HALF]
    with model.no_sync():
        model(mine).sum().backward()
    model(mine).sum().backward()
    # Twice the half batch, averaged over two ranks, is the whole batch.
    alone = network()
    alone(INPUTS).sum().backward()
    return _largest_difference(
        [parameter.grad for parameter in model.parameters()], [parameter.grad for parameter in alone.parameters()]
    )


@program
def buffers(rank: int, device: str) -> Any:
    model = DistributedDataParallel(nn.BatchNorm1d(8).to(device), device_ids=[rank])
    model.module.running_mean.fill_(rank + 1.0)
    model.eval()
    model(INPUTS)
    return model.module.running_mean[0]


@program
def sync_batch_norm(rank: int, device: str) -> Any:
    def fresh() -> nn.Sequential:
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4))

    alone = fresh()
    alone_out = alone(INPUTS)
    (alone_out.pow(3).sum() / RANKS).backward()
    model = DistributedDataParallel(nn.SyncBatchNorm.convert_sync_batchnorm(fresh()).to(device), device_ids=[rank])
    mine = slice(rank * HALF, (rank + 1) * HALF)
    out = model(INPUTS[mine])
    out.pow(3).sum().backward()
    return {
        "output": float((out.detach().cpu() - alone_out[mine].detach()).abs().max()),
        "gradient": _largest_difference(
            [parameter.grad for parameter in model.parameters()], [parameter.grad for parameter in alone.parameters()]
        ),
        "running": _largest_difference(
            [model.module[1].running_mean, model.module[1].running_var], [alone[1].running_mean, alone[1].running_var]
        ),
    }


@program
def distributed_sampler(rank: int, device: str) -> Any:
    numbers = TensorDataset(torch.arange(10))
    sampler: DistributedSampler[Any] = DistributedSampler(numbers, shuffle=False)
    return [batch[0].to(device) for batch in DataLoader(numbers, batch_size=5, sampler=sampler)]


@program
def join(rank: int, device: str) -> Any:
    model = DistributedDataParallel(nn.Linear(8, 1).to(device), device_ids=[rank])
    with Join([model]):
        for _ in range(2 + rank):
            model(INPUTS).sum().backward()
    return str(model.module.weight.grad.device)


@program
def join_that_divides_by_running_ranks(rank: int, device: str) -> Any:
    model = DistributedDataParallel(nn.Linear(1, 1, bias=False).to(device), device_ids=[rank])
    gradients = []
    with model.join(divide_by_initial_world_size=False):
        for step in range(1 + rank):
            model.zero_grad()
            model(torch.tensor([[step + 1.0 + rank]], device=device)).sum().backward()
            gradients.append(model.module.weight.grad.item())
    return gradients


@program
def host_module_with_device_ids(rank: int, device: str) -> Any:
    DistributedDataParallel(network(), device_ids=[rank])


@program
def host_module(rank: int, device: str) -> Any:
    DistributedDataParallel(network())


@program
def saved_and_loaded(rank: int, device: str) -> Any:
    model = DistributedDataParallel(nn.Linear(1, 1).to(device), device_ids=[rank])
    path = Path(gettempdir()) / f"gpututor-test-{os.getpid()}-{rank}.pt"
    torch.save(model.state_dict(), path)
    loaded = torch.load(path, map_location=device)
    path.unlink()
    return sorted((name, str(value.device)) for name, value in loaded.items())


@program
def tensor_parallel(rank: int, device: str) -> Any:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    torch.manual_seed(0)
    layers = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).to(device)
    values = torch.ones(3, 4, device=device)
    whole = layers(values)
    mesh = init_device_mesh("cuda", (RANKS,))
    parallelize_module(layers, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    parts = layers(values)
    parts.sum().backward()
    gradient: Any = next(layers.parameters()).grad
    assert gradient.to_local().shape == (4, 4)
    return str(parts.device), bool((parts - whole).abs().max() < 1e-5)

"""Programs with FSDP2 and DTensor that run in each rank."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from tests.support.ranks import recorded


class Block(nn.Module):
    """Residual block of a small network."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, values: Tensor) -> Tensor:
        hidden: Tensor = torch.nn.functional.gelu(self.up(self.norm(values)))
        out: Tensor = values + self.down(hidden)
        return out


class Net(nn.Module):
    """Network of blocks with a head whose rows do not divide evenly."""

    def __init__(self, width: int = 8, checkpointed: bool = False) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(2))
        self.head = nn.Linear(width, 3)
        self.checkpointed = checkpointed

    def forward(self, values: Tensor) -> Tensor:
        for block in self.blocks:
            if self.checkpointed:
                values = torch.utils.checkpoint.checkpoint(block, values, use_reentrant=False)
            else:
                values = block(values)
        out: Tensor = self.head(values)
        return out


def _sharded(net: Net, **options: Any) -> Net:
    from torch.distributed.fsdp import fully_shard

    for block in net.blocks:
        fully_shard(block, **options)
    fully_shard(net, **options)
    return net


def _batches(device: str) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(3, 4 * dist.get_world_size(), 8, generator=generator).to(device)


def _train(net: nn.Module, batches: Tensor) -> list[float]:
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    losses = []
    for batch in batches:
        loss = net(batch).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return [float(loss) for loss in losses]


def _full(net: nn.Module) -> list[Tensor]:
    device = torch.device("cuda", torch.cuda.current_device())
    whole: list[Tensor] = [parameter.to(device).full_tensor() for parameter in _parts(net)]
    return whole


def _parts(module: nn.Module) -> list[Any]:
    """Return the parameters, which are DTensors."""
    return list(module.parameters())


def _compare(rank: int, device: str, checkpointed: bool = False, **options: Any) -> Any:
    """Train a sharded network on a share of each batch, and a plain one on whole batches; return the differences."""
    from gpututor.trace.events import Kind

    torch.manual_seed(0)
    plain = Net().to(device)
    net = copy.deepcopy(plain)
    net.checkpointed = checkpointed
    _sharded(net, **options)
    batches = _batches(device)
    share = batches.chunk(dist.get_world_size(), dim=1)[rank]
    with recorded(__file__) as recorder:
        _train(net, share)
    _train(plain, batches)
    ours, theirs = [whole.detach() for whole in _full(net)], list(plain.parameters())
    return {
        "difference": max(
            float((a.detach().cpu() - b.detach().cpu()).abs().max()) for a, b in zip(ours, theirs, strict=True)
        ),
        "devices": sorted({str(parameter.device) for parameter in [*net.parameters(), *ours]}),
        "local_rows": [int(parameter.to_local().size(0)) for parameter in _parts(net.head)],
        "state": sorted({type(value).__name__ for value in net.state_dict().values()}),
        "hazards": [(event.name, event.line) for event in recorder.trace if event.kind is Kind.HAZARD],
    }


def plain(rank: int, device: str) -> Any:
    return _compare(rank, device)


def checkpointed(rank: int, device: str) -> Any:
    return _compare(rank, device, checkpointed=True)


def mixed_precision(rank: int, device: str) -> Any:
    from torch.distributed.fsdp import MixedPrecisionPolicy

    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    return _compare(rank, device, checkpointed=True, mp_policy=policy)


def kept_after_forward(rank: int, device: str) -> Any:
    return _compare(rank, device, reshard_after_forward=False)


def offloaded(rank: int, device: str) -> Any:
    from torch.distributed.fsdp import CPUOffloadPolicy

    return _compare(rank, device, offload_policy=CPUOffloadPolicy())


def accumulated(rank: int, device: str) -> Any:
    """Return the largest difference of two accumulated gradients from a whole step's."""
    torch.manual_seed(0)
    whole = Net().to(device)
    net = _sharded(copy.deepcopy(whole))
    batches = _batches(device)
    for number, batch in enumerate(batches[:2]):
        net.set_requires_gradient_sync(number == 1)  # type: ignore[operator]
        net(batch.chunk(dist.get_world_size())[rank]).square().mean().backward()
        whole(batch).square().mean().backward()
    norm = torch.nn.utils.clip_grad_norm_(net.parameters(), 0.1)
    expected = torch.nn.utils.clip_grad_norm_(whole.parameters(), 0.1)
    ours = [parameter.grad.full_tensor() for parameter in _parts(net)]
    theirs = [parameter.grad for parameter in whole.parameters()]
    largest = max(float((a - b).abs().max()) for a, b in zip(ours, theirs, strict=True))
    return largest, float((norm.full_tensor() - expected).abs())  # type: ignore[attr-defined]


def divided(rank: int, device: str) -> Any:
    torch.manual_seed(0)
    net: Any = _sharded(Net().to(device))
    net.set_gradient_divide_factor(4.0)
    net(_batches(device)[0]).square().mean().backward()
    return net.head.bias.grad.full_tensor()


def on_meta(rank: int, device: str) -> Any:
    with torch.device("meta"):
        net = Net()
    _sharded(net)
    net.to_empty(device=device)
    for parameter in net.parameters():
        torch.nn.init.ones_(parameter)
    return net(torch.ones(1, 8, device=device)), str(net.head.weight.device)


def random_values(rank: int, device: str) -> Any:
    """Draw weights of a sharded module from meta, a replicated DTensor and its plain twin, and dropout."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor, rand

    with torch.device("meta"):
        net: Any = nn.Linear(8, 8)
    fully_shard(net)
    net.to_empty(device="cuda")
    torch.manual_seed(0)
    nn.init.normal_(net.weight)
    nn.init.normal_(net.bias)
    mesh = init_device_mesh("cuda", (dist.get_world_size(),))
    torch.manual_seed(1)
    replicated: Any = distribute_tensor(torch.empty(4, 4, device=device), mesh, [Replicate()]).uniform_()
    torch.manual_seed(1)
    plain = torch.empty(4, 4, device=device).uniform_()
    ones: Any = distribute_tensor(torch.ones(64, 2, device=device), mesh, [Shard(0)])
    dropped: Any = nn.functional.dropout(ones, 0.5)
    generator = torch.Generator(device).manual_seed(2)
    own: Any = distribute_tensor(torch.empty(4, device=device), mesh, [Shard(0)]).normal_(generator=generator)
    return {
        "weight": net.weight.full_tensor().cpu().tolist(),
        "bias": net.bias.full_tensor().cpu().tolist(),
        "replicated": torch.equal(replicated.to_local(), plain),
        "dropout": dropped.full_tensor().cpu().tolist(),
        "own": own.full_tensor().cpu().tolist(),
        "made": rand(4, device_mesh=mesh, placements=[Shard(0)]).full_tensor().cpu().tolist(),
        "next": [torch.rand(2, device=device, generator=source).tolist() for source in (None, generator)],
    }


def state_dict(rank: int, device: str) -> Any:
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, set_model_state_dict

    torch.manual_seed(0)
    plain = Net().to(device)
    net = _sharded(copy.deepcopy(plain))
    full: dict[str, Any] = get_model_state_dict(net, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    other = _sharded(Net().to(device))
    set_model_state_dict(other, plain.state_dict(), options=StateDictOptions(full_state_dict=True))
    same = all(torch.equal(a, b) for a, b in zip(_full(other), plain.parameters(), strict=True))
    return sorted({str(value.device) for value in full.values()}), len(full), same


def trace(rank: int, device: str) -> Any:
    """Return (name, bytes, stream) of each collective of one step, the hazards, and figures of memory."""
    from gpututor.trace.events import Kind

    torch.manual_seed(0)
    net = _sharded(Net(width=64).to(device))
    values = torch.ones(4, 64, device=device)
    before = torch.cuda.memory_allocated()
    with recorded(__file__) as recorder:
        out = net(values)
        forward = torch.cuda.memory_allocated()
        out.sum().backward()
        torch.cuda.synchronize()
    events = list(recorder.trace)
    collectives = [event for event in events if event.kind is Kind.COLLECTIVE]
    return {
        "collectives": [(event.name, event.size_bytes) for event in collectives],
        "on_clock": all(event.duration > 0 for event in collectives),
        "hazards": [event.name for event in events if event.kind is Kind.HAZARD],
        "grew": (forward - before, torch.cuda.memory_allocated() - before),
    }


def dtensors(rank: int, device: str) -> Any:
    """Return what DTensor's functions give, as whole tensors."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor, zeros

    mesh = init_device_mesh("cuda", (dist.get_world_size(),))
    whole = torch.arange(12.0, device=device).view(4, 3)
    rows: Any = distribute_tensor(whole, mesh, [Shard(0)])
    columns: Any = rows.redistribute(mesh, [Shard(1)])
    partial = DTensor.from_local(whole, mesh, [Partial()])
    made = zeros(4, 2, device_mesh=mesh, placements=[Shard(0)])
    weight: Any = distribute_tensor(torch.eye(3, device=device), mesh, [Replicate()]).requires_grad_()
    (rows @ weight).sum().backward()
    assert weight.grad is not None
    return {
        "local": rows.to_local(),
        "columns": list(columns.to_local().shape),
        "whole": torch.equal(columns.full_tensor(), whole),
        "sum": float(rows.sum().full_tensor()),
        "partial": torch.equal(partial.full_tensor(), whole * dist.get_world_size()),
        "made": (list(made.to_local().shape), str(made.device)),
        "gradient": weight.grad.full_tensor(),
        "product": torch.equal((rows @ columns.T).full_tensor(), whole @ whole.T),
        "text": str(rows.placements),
    }


PROGRAMS = {
    program.__name__: program
    for program in (
        plain,
        checkpointed,
        mixed_precision,
        kept_after_forward,
        offloaded,
        accumulated,
        divided,
        on_meta,
        random_values,
        state_dict,
        trace,
        dtensors,
    )
}


def hybrid(rank: int, device: str) -> Any:
    """Replicate over one dimension of a mesh and shard over the other."""
    from torch.distributed.device_mesh import init_device_mesh

    return _compare(rank, device, mesh=init_device_mesh("cuda", (2, 2), mesh_dim_names=("replicate", "shard")))


def with_tensor_parallel(rank: int, device: str) -> Any:
    """Shard over one dimension of a mesh the layers that are cut over the other; return the largest difference."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = init_device_mesh("cuda", (2, 2), mesh_dim_names=("data", "tensor"))
    torch.manual_seed(0)
    whole = Net().to(device)
    net = copy.deepcopy(whole)
    for block in net.blocks:
        parallelize_module(block, mesh["tensor"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    _sharded(net, mesh=mesh["data"])
    batches = _batches(device)
    _train(net, batches.chunk(2, dim=1)[mesh["data"].get_local_rank()])
    _train(whole, batches)
    pairs = zip(_full(net), whole.parameters(), strict=True)
    return max(float((a.detach() - b.detach()).abs().max()) for a, b in pairs)


FOUR_RANKS = {program.__name__: program for program in (plain, hybrid, with_tensor_parallel)}

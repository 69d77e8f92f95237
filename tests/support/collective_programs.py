"""Every collective on device tensors, as a program of two ranks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.profiler import profile

from tests.support.profiles import BOTH, rows
from tests.support.ranks import RANKS, program_table, recorded

PROGRAMS, program = program_table()
THREE_RANKS, program_of_three = program_table()


def _own(rank: int, device: str) -> torch.Tensor:
    return torch.tensor([rank + 1.0], device=device)


def _zeros(count: int, device: str) -> list[torch.Tensor]:
    return [torch.zeros(1, device=device) for _ in range(count)]


@program
def backend(rank: int, device: str) -> Any:
    return dist.get_backend(), dist.is_nccl_available()


@program
def all_reduce(rank: int, device: str) -> Any:
    reduced = {}
    for name in ("SUM", "AVG", "PRODUCT", "MIN", "MAX"):
        tensor = _own(rank, device)
        dist.all_reduce(tensor, op=getattr(dist.ReduceOp, name))
        reduced[name] = tensor
    return reduced


@program
def all_reduce_in_place_of_a_view(rank: int, device: str) -> Any:
    whole = torch.zeros(3, device=device)
    view = whole[1:2]
    view += rank + 1
    dist.all_reduce(view)
    return whole


@program
def asynchronous(rank: int, device: str) -> Any:
    tensor = _own(rank, device)
    work = dist.all_reduce(tensor, async_op=True)
    assert work is not None
    work.wait()
    # The stream waits, the host continued: it is not done until the GPU is.
    early = work.is_completed()
    torch.cuda.synchronize()
    return tensor, not early and work.is_completed(), work.get_future().value(), work.get_future().value()[0] is tensor


@program
def broadcast(rank: int, device: str) -> Any:
    tensor = _own(rank, device)
    dist.broadcast(tensor, 1)
    return tensor


@program
def reduce(rank: int, device: str) -> Any:
    tensor = _own(rank, device)
    dist.reduce(tensor, 0)
    return tensor


@program
def all_gather(rank: int, device: str) -> Any:
    outputs = _zeros(RANKS, device)
    dist.all_gather(outputs, _own(rank, device))
    return outputs


@program
def all_gather_of_unequal_lengths(rank: int, device: str) -> Any:
    outputs = [torch.zeros(peer + 1, device=device) for peer in range(RANKS)]
    dist.all_gather(outputs, torch.full((rank + 1,), rank + 1.0, device=device))
    return [output.tolist() for output in outputs]


@program
def all_gather_of_a_wrong_length(rank: int, device: str) -> Any:
    outputs = [torch.zeros(peer + 1, device=device) for peer in range(RANKS)]
    dist.all_gather(outputs, torch.ones(3, device=device))


@program_of_three
def all_gather_into_too_few_tensors(rank: int, device: str) -> Any:
    dist.all_gather([torch.zeros(1, device=device), torch.zeros(2, device=device)], torch.ones(rank + 1, device=device))


@program
def all_gather_into_tensor(rank: int, device: str) -> Any:
    output = torch.zeros(1, RANKS, device=device)
    dist.all_gather_into_tensor(output, _own(rank, device))
    return output


@program
def gather(rank: int, device: str) -> Any:
    outputs = _zeros(RANKS, device) if rank == 0 else None
    dist.gather(_own(rank, device), outputs)
    return outputs


@program
def scatter(rank: int, device: str) -> Any:
    output = torch.zeros(1, device=device)
    chunks = [torch.full((1,), 10.0 + other, device=device) for other in range(RANKS)] if rank == 0 else None
    dist.scatter(output, chunks)
    return output


@program
def reduce_scatter(rank: int, device: str) -> Any:
    output = torch.zeros(1, device=device)
    dist.reduce_scatter(output, [torch.full((1,), 1.0 + other, device=device) for other in range(RANKS)])
    return output


@program
def reduce_scatter_tensor(rank: int, device: str) -> Any:
    summed, averaged = torch.zeros(1, device=device), torch.zeros(1, device=device)
    dist.reduce_scatter_tensor(summed, torch.arange(1.0, RANKS + 1, device=device))
    dist.reduce_scatter_tensor(averaged, torch.arange(1.0, RANKS + 1, device=device), op=dist.ReduceOp.AVG)
    return summed, averaged


@program
def all_to_all(rank: int, device: str) -> Any:
    outputs = _zeros(RANKS, device)
    dist.all_to_all(outputs, [torch.full((1,), 10.0 * rank + other, device=device) for other in range(RANKS)])
    return outputs


@program
def all_to_all_single(rank: int, device: str) -> Any:
    output = torch.zeros(RANKS, device=device)
    dist.all_to_all_single(output, 10.0 * rank + torch.arange(float(RANKS), device=device))
    return output


@program
def send_and_recv(rank: int, device: str) -> Any:
    tensor = _own(rank, device)
    if rank == 0:
        dist.send(tensor, 1)
        return dist.recv(tensor, 1), tensor
    received = torch.zeros(1, device=device)
    sender = dist.recv(received)
    dist.send(received * 10, 0)
    return sender, received


@program
def isend_and_irecv(rank: int, device: str) -> Any:
    received = torch.zeros(1, device=device)
    works = [dist.isend(_own(rank, device), 1 - rank), dist.irecv(received, 1 - rank)]
    for work in works:
        assert work is not None
        work.wait()
    return received


@program
def batch_isend_irecv(rank: int, device: str) -> Any:
    received = torch.zeros(1, device=device)
    mine = _own(rank, device)
    both = [dist.P2POp(dist.isend, mine, 1 - rank), dist.P2POp(dist.irecv, received, 1 - rank)]
    for work in dist.batch_isend_irecv(both):
        work.wait()
    return received


@program
def messages_to_itself(rank: int, device: str) -> Any:
    received = torch.zeros(1, device=device)
    both = [dist.P2POp(dist.irecv, received, rank), dist.P2POp(dist.isend, _own(rank, device), rank)]
    for work in dist.batch_isend_irecv(both):
        work.wait()
    return received


@program
def a_lone_message_to_itself(rank: int, device: str) -> Any:
    work = dist.irecv(torch.zeros(1, device=device), rank, tag=7)
    assert work is not None
    work.wait()


@program
def messages_to_itself_after_a_lone_one(rank: int, device: str) -> Any:
    lone = dist.isend(torch.zeros(1, device=device), rank, tag=8)
    assert lone is not None
    with contextlib.suppress(RuntimeError):
        lone.wait()
    received = torch.zeros(1, device=device)
    works = [dist.isend(_own(rank, device), rank, tag=8), dist.irecv(received, rank, tag=8)]
    for work in works:
        assert work is not None
        work.wait()
    return received


@program
def sender_of_a_message_to_itself(rank: int, device: str) -> Any:
    """Return the rank in a group whose ranks are not the global ones."""
    groups = [dist.new_group([peer]) for peer in range(RANKS)]
    tensor = _own(rank, device)
    group: Any = groups[rank]
    works = [group.send([tensor], 0, 0), group.recv([tensor], 0, 0)]
    for work in works:
        work.wait()
    return works[1]._source_rank()


@program
def group_after_calls_of_its_backend(rank: int, device: str) -> Any:
    group: Any = dist.new_group(backend="cpu:gloo,cuda:nccl")
    name = group.group_name
    tensor = _own(rank, device)
    group._get_backend(torch.device("cuda")).allreduce([tensor]).wait()
    both = [functional.all_reduce(values, "sum", group) + 0 for values in (tensor, torch.ones(1))]
    return group.group_name == name, *both


@program
def calls_of_a_backend(rank: int, device: str) -> Any:
    group: Any = dist.group.WORLD
    backend = group._get_backend(torch.device("cuda"))
    tensor = _own(rank, device)
    backend.allreduce([tensor]).wait()
    backend.broadcast([tensor], dist.BroadcastOptions()).wait()
    return tensor


@program
def barrier(rank: int, device: str) -> Any:
    dist.barrier()
    return dist.barrier(device_ids=[rank])


@program
def objects(rank: int, device: str) -> Any:
    everybodys: list[Any] = [None] * RANKS
    dist.all_gather_object(everybodys, {"rank": rank})
    from_one = [rank]
    dist.broadcast_object_list(from_one, 1)
    mine: list[Any] = [None]
    dist.scatter_object_list(mine, ["a", "b"] if rank == 0 else None)
    return everybodys, from_one, mine


@program
def new_group(rank: int, device: str) -> Any:
    group = dist.new_group([0, 1])
    tensor = _own(rank, device)
    dist.all_reduce(tensor, group=group)
    return tensor, dist.get_backend(group)


@program
def gloo_group_takes_both(rank: int, device: str) -> Any:
    group = dist.new_group(backend="gloo")
    on_device, on_host = _own(rank, device), torch.ones(1)
    dist.all_reduce(on_device, group=group)
    dist.all_reduce(on_host, group=group)
    return on_device, on_host, dist.get_backend(group)


@program
def mixed_group(rank: int, device: str) -> Any:
    group = dist.new_group(backend="cpu:gloo,cuda:nccl")
    on_device, on_host = _own(rank, device), torch.ones(1)
    dist.all_reduce(on_device, group=group)
    dist.all_reduce(on_host, group=group)
    return on_device, on_host


@program
def coalescing(rank: int, device: str) -> Any:
    tensors = [_own(rank, device), 2 * _own(rank, device)]
    with dist._coalescing_manager():  # type: ignore[attr-defined]
        for tensor in tensors:
            dist.all_reduce(tensor)
    return tensors


@program
def functional_collectives(rank: int, device: str) -> Any:
    world: Any = dist.group.WORLD
    return {
        "sum": functional.all_reduce(_own(rank, device), "sum", world) + 0,
        "avg": functional.all_reduce(_own(rank, device), "avg", world) + 0,
        "gathered": functional.all_gather_tensor(_own(rank, device), 0, world) + 0,
        "scattered": functional.reduce_scatter_tensor(torch.ones(RANKS, device=device), "sum", 0, world) + 0,
    }


@program
def profile_of_collectives(rank: int, device: str) -> Any:
    group: Any = dist.new_group(backend="cpu:gloo,cuda:nccl")
    tensor = torch.ones(1 << 16, device=device)
    with profile(activities=BOTH) as seen:
        dist.all_reduce(tensor, group=group)
        dist.all_reduce(torch.ones(1), group=group)
        functional.all_reduce(tensor, "avg", group) + 0
        torch.cuda.synchronize()
    averages = rows(seen)
    return {
        "names": list(averages),
        "kernel": max(row.device_time for name, row in averages.items() if name.startswith("ncclDevKernel")),
        "operator": averages["c10d::allreduce_"].device_time_total,
        "negative": [event.name for event in seen.events() if event.self_cpu_time_total < -1e-6],
        "table": seen.key_averages().table(sort_by="cuda_time_total", row_limit=4, max_name_column_width=80),
    }


@program
def other_dtypes(rank: int, device: str) -> Any:
    reduced = []
    for dtype in (torch.float16, torch.bfloat16, torch.int64, torch.uint8):
        tensor = torch.ones(1, device=device, dtype=dtype)
        dist.all_reduce(tensor)
        reduced.append(tensor.dtype is dtype and tensor)
    return reduced


@program
def host_tensor(rank: int, device: str) -> Any:
    dist.all_reduce(torch.ones(1))


@program
def host_tensor_among_device_tensors(rank: int, device: str) -> Any:
    dist.all_gather([torch.zeros(1) for _ in range(RANKS)], _own(rank, device))


@program
def not_contiguous(rank: int, device: str) -> Any:
    dist.all_reduce(torch.ones(2, 3, device=device).t())


@program
def monitored_barrier(rank: int, device: str) -> Any:
    dist.monitored_barrier()


@program
def trace(rank: int, device: str) -> Any:
    tensor = torch.ones(8, device=device)
    with recorded(__file__) as recorder:
        dist.all_reduce(tensor)
    return [(event.kind.value, event.name, event.device, event.size_bytes, event.line) for event in recorder.trace]


@program
def fully_sharded_data_parallel(rank: int, device: str) -> Any:
    from torch.distributed.fsdp import FullyShardedDataParallel

    FullyShardedDataParallel(torch.nn.Linear(2, 2).to(device))


def _error(call: Callable[..., Any], *args: Any, **options: Any) -> str:
    """Return the error of a call."""
    try:
        call(*args, **options)
    except (RuntimeError, TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


@program
def averages(rank: int, device: str) -> Any:
    """Return averages of integers, of halves whose sum is infinite, and of a reduce-scatter, and its input."""
    world: Any = dist.group.WORLD
    integers = torch.tensor([3 + rank, -3 - rank], device=device)
    functional_integers = functional.all_reduce(integers, "avg", world) + 0
    dist.all_reduce(integers, dist.ReduceOp.AVG)
    halves = torch.full((1,), 60000.0, dtype=torch.float16, device=device)
    dist.all_reduce(halves, dist.ReduceOp.AVG)
    whole = torch.tensor([2.0, 4.0], device=device)
    dist.reduce_scatter_tensor(part := torch.zeros(1, device=device), whole, dist.ReduceOp.AVG)
    results = (integers, functional_integers, halves, part, whole)
    return [values.tolist() for values in results]


@program
def bools(rank: int, device: str) -> Any:
    """Return the bytes of sums of bools."""
    world: Any = dist.group.WORLD
    given = torch.tensor([True, rank == 0, False], device=device)
    summed = functional.all_reduce(given, "sum", world) & True
    dist.all_reduce(given)
    return [values.view(torch.uint8).tolist() for values in (given, summed)]


@program
def refused_reductions(rank: int, device: str) -> Any:
    def refused(operation: str, dtype: torch.dtype) -> str:
        return _error(dist.all_reduce, torch.ones(2, device=device).to(dtype), getattr(dist.ReduceOp, operation))

    names = ("BAND", "BOR", "BXOR")
    world: Any = dist.group.WORLD
    return [
        *(refused(name, torch.int64) for name in names),
        _error(functional.all_reduce, torch.ones(2, device=device, dtype=torch.int64), "bor", world),
        refused("AVG", torch.bool),
        refused("SUM", torch.int16),
        refused("SUM", torch.float8_e4m3fn),
        refused("SUM", torch.float8_e5m2fnuz),
    ]


@program
def float8(rank: int, device: str) -> Any:
    world: Any = dist.group.WORLD
    own = _own(rank, device).to(torch.float8_e4m3fn)
    gathered = torch.zeros(RANKS, device=device, dtype=own.dtype)
    dist.all_gather_into_tensor(gathered, own)
    again = functional.all_gather_tensor(own, 0, world)
    parts = [torch.zeros_like(own) for _ in range(RANKS)]
    dist.all_gather(parts, own)
    dist.broadcast(own, 1)
    results = (gathered, again, *parts, own)
    return [values.float().tolist() for values in results if values.dtype is torch.float8_e4m3fn]


@program
def refused_shapes(rank: int, device: str) -> Any:
    small, large = torch.zeros(1, device=device), torch.zeros(3, device=device)
    integers = torch.zeros(RANKS, device=device, dtype=torch.int64)
    short = [torch.zeros(2, device=device)] * RANKS if rank == 0 else None
    return [
        _error(dist.all_gather_into_tensor, large, small),
        _error(dist.all_gather_into_tensor, integers, small),
        _error(dist.reduce_scatter_tensor, small, large),
        _error(dist.reduce_scatter_tensor, small, integers),
        _error(dist.all_to_all_single, *torch.zeros(2, 2, device=device, dtype=torch.int16)),
        _error(dist.gather, small, short) if rank == 0 else "",
    ]


@program
def two_ranks_on_one_gpu(rank: int, device: str) -> Any:
    dist.all_reduce(torch.ones(1, device="cuda:0"), group=dist.new_group())


@program
def one_gpu_after_a_barrier(rank: int, device: str) -> Any:
    """Reduce on the first GPU after a barrier, for which NCCL chooses each rank's own GPU."""
    group = dist.new_group()
    torch.cuda.set_device(0)
    try:
        dist.barrier(group)
        return _error(dist.all_reduce, torch.ones(1, device="cuda"), group=group).splitlines()[-1:]
    finally:
        torch.cuda.set_device(rank)


BOUND_PROGRAMS, program_of_bound = program_table()


@program_of_bound
def parts_of_a_group(rank: int, device: str) -> Any:
    from torch.distributed.device_mesh import init_device_mesh

    part: Any = dist.split_group(split_ranks=[[1], [0]], group_desc="parts")
    tensor = _own(rank, device)
    dist.all_reduce(tensor, group=part)
    mesh = init_device_mesh("cuda", (RANKS, 1), mesh_dim_names=("data", "tensor"))
    dist.all_reduce(tensor, group=mesh.get_group("data"))
    dist.all_reduce(tensor, group=mesh.get_group("tensor"))
    not_in_a_part = dist.split_group(split_ranks=[[1]])
    return part.size(), part.group_desc, dist.get_backend(part), tensor, (not_in_a_part is None) == (rank == 0)


@program_of_bound
def another_device_than_the_bound(rank: int, device: str) -> Any:
    dist.all_reduce(torch.ones(1, device=f"cuda:{1 - rank}"))

"""Timing of collectives, as programs of two ranks that return figures of their own traces."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

from gpututor.devices.virtual.machine import active_machine
from gpututor.trace.events import Event, Kind
from tests.support.ranks import RANKS, program_table, recorded

PROGRAMS, program = program_table()
CYCLES = 10_000_000


class Seen(list[Event]):
    """Events of a block, by name."""

    def named(self, *names: str) -> list[Any]:
        """Return (start, end) of each event with one of these names."""
        return [(event.start, event.end) for event in self if event.name in names]

    def of(self, kind: Kind) -> list[Event]:
        return [event for event in self if event.kind is kind]

    @property
    def hazards(self) -> list[str]:
        return [event.name for event in self.of(Kind.HAZARD)]


@contextmanager
def seen() -> Iterator[Seen]:
    events = Seen()
    dist.barrier()
    with recorded() as recorder:
        yield events
    events.extend(recorder.trace)


def _now() -> int:
    return active_machine().clock.host.now


def _slower(rank: int) -> None:
    """Delay rank 0."""
    if rank == 0:
        torch.cuda._sleep(CYCLES)


@program
def slower_rank(rank: int, device: str) -> Any:
    values = torch.ones(1 << 20, device=device)
    with seen() as events:
        _slower(rank)
        dist.all_reduce(values)
        values.mul_(2)
        launched = _now()
        torch.cuda.synchronize()
    (event,) = events.of(Kind.COLLECTIVE)
    return {
        "ready": events.named("torch.cuda._sleep")[0][1] if rank == 0 else event.launched,
        "collective": (event.start, event.end),
        "next": events.named("aten::mul_")[0],
        "stream": event.stream,
        "bytes": event.size_bytes,
        "host continued": launched < event.start,
    }


@program
def overlap(rank: int, device: str) -> Any:
    sent, other = torch.ones(1 << 24, device=device), torch.ones(1 << 20, device=device)
    with seen() as events:
        work: Any = dist.all_reduce(sent, async_op=True)
        other.add_(1)
        work.wait()
        sent.mul_(2)
    return events.named("c10d::allreduce_"), events.named("aten::add_"), events.named("aten::mul_"), events.hazards


@program
def used_too_early(rank: int, device: str) -> Any:
    sent = torch.ones(1 << 20, device=device)
    with seen() as events:
        work: Any = dist.all_reduce(sent, async_op=True)
        sent.mul_(2)
        work.wait()
    return events.hazards


@program
def never_waited_for(rank: int, device: str) -> Any:
    """Synchronize the whole GPU instead of the work."""
    sent = torch.ones(1 << 20, device=device)
    with seen() as events:
        _slower(rank)
        work: Any = dist.all_reduce(sent, async_op=True)
        torch.cuda.synchronize()
        done = work.is_completed()
    (event,) = events.of(Kind.COLLECTIVE)
    return event.start, event.end, done


@program
def polled(rank: int, device: str) -> Any:
    sent = torch.ones(1 << 20, device=device)
    work: Any = dist.all_reduce(sent, async_op=True)
    work.wait()
    rounds = 0
    while not work.is_completed():
        rounds += 1
    return rounds > 1


@program
def chained(rank: int, device: str) -> Any:
    sent, other = torch.ones(1 << 24, device=device), torch.ones(1 << 20, device=device)
    with seen() as events:
        work: Any = dist.all_reduce(sent, async_op=True)
        future = work.get_future().then(lambda done: done.value()[0].mul_(2))
        other.add_(1)
        future.wait().sub_(1)
    names = ("c10d::allreduce_", "aten::add_", "aten::mul_", "aten::sub_")
    return [events.named(name)[0] for name in names], events.hazards, float(sent[0])


@program
def functional_result(rank: int, device: str) -> Any:
    sent, other = torch.ones(1 << 24, device=device), torch.ones(1 << 20, device=device)
    with seen() as events:
        gathered = functional.all_reduce(sent, "sum", dist.group.WORLD)  # type: ignore[arg-type]
        other.add_(1)
        result = gathered * 2
        torch.cuda.synchronize()
        del gathered, result
    names = ("_c10d_functional::all_reduce", "aten::add_", "aten::mul")
    return [events.named(name)[0] for name in names], events.hazards


@program
def compiled_collective(rank: int, device: str) -> Any:
    def step(x: torch.Tensor) -> Any:
        return functional.all_reduce(x * 3, "sum", dist.group.WORLD) + 1  # type: ignore[arg-type]

    x = torch.ones(1 << 20, device=device)
    with seen() as events, warnings.catch_warnings(record=True) as caught:
        out = torch.compile(step)(x)
        torch.cuda.synchronize()
    names = ("aten::mul", "_c10d_functional::all_reduce", "aten::add")
    is_named = any("_c10d_functional::all_reduce" in str(warning.message) for warning in caught)
    return [events.named(name)[0] for name in names], out[0].item(), is_named


@program
def messages(rank: int, device: str) -> Any:
    values = torch.ones(1 << 20, device=device)
    with seen() as events:
        _slower(rank)
        if rank == 0:
            dist.send(values, 1)
        else:
            dist.recv(values, 0)
        if rank == 0:
            dist.send(values, 1)
        else:
            dist.recv(values)  # from any rank
    return [(event.start, event.end) for event in events.of(Kind.COLLECTIVE)]


@program
def both_ways(rank: int, device: str) -> Any:
    mine, theirs = torch.ones(1 << 24, device=device), torch.empty(1 << 24, device=device)
    with seen() as events:
        works = [dist.isend(mine, 1 - rank), dist.irecv(theirs, 1 - rank)]
        for work in works:
            assert work is not None
            work.wait()
    return [(event.start, event.end) for event in events.of(Kind.COLLECTIVE)]


@program
def barrier(rank: int, device: str) -> Any:
    with seen() as events:
        _slower(rank)
        dist.barrier()
        after = _now()
    return after, [event.name for event in events.of(Kind.SYNCHRONISE)]


@program
def uneven(rank: int, device: str) -> Any:
    """Send more from rank 0 than from rank 1; both end together."""
    sizes = [[1 << 20, 1 << 24], [1 << 4, 1 << 4]]
    sent = torch.ones(sum(sizes[rank]), device=device)
    received = torch.empty(sizes[0][rank] + sizes[1][rank], device=device)
    with seen() as events:
        dist.all_to_all_single(received, sent, [sizes[0][rank], sizes[1][rank]], sizes[rank])
    return [(event.start, event.end) for event in events.of(Kind.COLLECTIVE)]


@program
def smaller_group(rank: int, device: str) -> Any:
    """Reduce in a group of a single rank, which waits for no other rank and has its own stream."""
    mine = [dist.new_group([number]) for number in range(RANKS)][rank]
    both = dist.new_group([0, 1])
    values = torch.ones(1 << 20, device=device)
    with seen() as events:
        _slower(rank)
        dist.all_reduce(values, group=mine)
        dist.all_reduce(values, group=both)
    return [(event.stream, event.start, event.end) for event in events.of(Kind.COLLECTIVE)]


@program
def over_gloo(rank: int, device: str) -> Any:
    group = dist.new_group(backend="gloo")
    values = torch.ones(1 << 20, device=device)
    with seen() as events:
        _slower(rank)
        dist.all_reduce(values, group=group)
        after = _now()
    (event,) = events.of(Kind.COLLECTIVE)
    return event.start, event.end, after, [wait.name for wait in events.of(Kind.SYNCHRONISE)]


@program
def on_another_stream(rank: int, device: str) -> Any:
    """Launch a kernel on another stream while a collective waits; both streams must overlap."""
    values = torch.ones(1 << 10, device=device)
    side = torch.cuda.Stream()
    with seen() as events:
        torch.cuda._sleep(CYCLES)
        dist.all_reduce(values)
        with torch.cuda.stream(side):
            torch.ones(1 << 10, device=device)
        torch.cuda.synchronize()
    return events.named("torch.cuda._sleep")[0], events.named("aten::fill_", "aten::ones")[-1]


@program
def captured(rank: int, device: str) -> Any:
    values = torch.ones(1, device=device)
    words = ""
    with contextlib.suppress(torch.AcceleratorError), torch.cuda.graph(torch.cuda.CUDAGraph()):
        try:
            dist.all_reduce(values)
        except NotImplementedError as error:
            words = str(error)
    return words


def _wide(device: str) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Linear(512, 512) for _ in range(6))).to(device)


def _trained(rank: int, device: str, hook: Callable[..., Any] | None = None, *, synced: bool = True) -> Any:
    """Return the intervals of a backward pass: (collectives, kernels, hazards, the first kernel after it)."""
    model = DistributedDataParallel(_wide(device), device_ids=[rank], bucket_cap_mb=1)
    if hook is not None:
        model.register_comm_hook(None, hook)
    for _ in range(2):
        model(torch.ones(1, 512, device=device)).sum().backward()  # the second one makes the buckets anew
    inputs = torch.ones(4096, 512, device=device)
    with seen() as events:
        with contextlib.nullcontext() if synced else model.no_sync():
            model(inputs).sum().backward()
        model.module[0].weight.grad.neg_()
    collectives = [(event.start, event.end) for event in events.of(Kind.COLLECTIVE)]
    return collectives, events.named("aten::mm", "aten::addmm"), events.hazards, events.named("aten::neg_")


PROGRAMS["ddp"] = _trained
PROGRAMS["ddp_with_a_hook"] = partial(_trained, hook=default_hooks.fp16_compress_hook)
PROGRAMS["sent_without_sync"] = lambda rank, device: _trained(rank, device, synced=False)[0]


@program
def waited_for_others(rank: int, device: str) -> Any:
    from gpututor.devices.virtual.distributed.communicator import waits_for_others

    values = torch.ones(1, device=device)
    dist.barrier()
    torch.cuda.synchronize()
    before = len(waits_for_others())
    _slower(rank)
    dist.all_reduce(values)
    torch.cuda.synchronize()
    assert dist.get_world_size() == RANKS
    return [end - begin for begin, end in waits_for_others()[before:]]


ONE_COLLECTIVE = {"slower_rank": slower_rank}

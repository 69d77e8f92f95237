"""Inconsistencies: figures of a run that cannot all be true, and code that a submission replaced.

The trace and the clock of the virtual GPU are in the submission's process, which could change them. No honest program
breaks these rules, so a person should look at each inconsistency. It is not an accusation.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import torch

from gpututor.checks.model import Call, Run
from gpututor.checks.trees import tensors_by_path
from gpututor.devices.virtual.cost.calibration import fitted
from gpututor.devices.virtual.cost.compiled import FLOOR_S
from gpututor.hardware.gpus import GpuSpec, gpu_spec
from gpututor.judge.source_review import review, suspicions_in
from gpututor.protocol.encode import Encoder
from gpututor.protocol.messages import MachineSpec
from gpututor.protocol.values import DTYPES, TensorFact
from gpututor.trace.events import Event, Kind

_MEMORY = (Kind.ALLOCATE, Kind.FREE, Kind.OUT_OF_MEMORY)
_WORK = (Kind.KERNEL, Kind.TRANSFER)
_WRITERS = (*_WORK, Kind.COLLECTIVE)
_DENSE = frozenset(
    f"aten::{name}"
    for name in (
        *("mm", "bmm", "addmm", "baddbmm", "mv", "add", "add_", "sub", "sub_", "mul", "mul_", "div", "div_"),
        *("relu", "relu_", "tanh", "exp", "clone", "zeros", "ones", "sum"),
    )
)
"""Operators that access all bytes of their tensors, unlike gathers."""
_BEYOND_L2 = 1.5
"""Least multiple of the modelled L2 rate that rounding cannot explain."""


def find_inconsistencies(run: Run, machine: MachineSpec, changed: Iterable[str] = ()) -> tuple[str, ...]:
    """Return sentences for review. `changed`: names of replaced code, as the worker reports."""
    sentences = [f"{name} was replaced while the submission ran" for name in changed]
    sentences += suspicions_in(review(run.source), all_count=False)
    calls = [call for calls in run.repetitions for call in calls]
    # Each rank has its own machine and clock.
    ranks = list(zip(*(call.ranks for call in calls), strict=True)) or [tuple(calls)]
    for rank, own in enumerate(ranks):
        place = f"rank {rank}, " if len(ranks) > 1 else ""
        if machine.kind == "virtual":
            gpu = gpu_spec(machine.scenario.gpu)
            for number, call in enumerate(own, 1):
                sentences += [f"{place}call {number}: {words}" for words in _check_call(call, run, machine, gpu)]
        if any(later.span.started < before.span.finished for before, later in itertools.pairwise(own)):
            sentences.append(f"{place}a call began before the previous call ended")
    return tuple(dict.fromkeys(sentences))


def _check_call(call: Call, run: Run, machine: MachineSpec, gpu: GpuSpec) -> Iterator[str]:
    events = list(call.trace)
    yield from _check_devices(events, machine)
    if any(event.line is not None and event.line > run.source.count("\n") + 1 for event in events):
        yield "the trace has a line that the file does not have"
    yield from _check_memory(call, events, machine)
    yield from _check_result_memory(call)
    yield from _check_result_writes(call, events)
    yield from _check_shared_memory(call)
    yield from _check_order(call, events)
    yield from _check_speed(events, gpu)
    yield from _check_waits(call, events)


def _check_devices(events: list[Event], machine: MachineSpec) -> Iterator[str]:
    known = {"", "cpu", *(f"cuda:{index}" for index in range(machine.scenario.gpus))}
    for event in events:
        if not {event.device, event.source, event.target} <= known:
            yield "the trace has a device that the machine does not have"
            return
        if event.kind is Kind.KERNEL and not _is_operator(event.name):
            yield "the trace has a kernel that no operator launched"
            return


def _is_operator(name: str) -> bool:
    """Return True unless the name is empty, or one in torch's own namespace that torch does not have."""
    namespace, _, operator = name.partition("::")
    return bool(name) and (namespace != "aten" or hasattr(torch.ops.aten, operator.partition(".")[0]))


def _check_memory(call: Call, events: list[Event], machine: MachineSpec) -> Iterator[str]:
    """Check that allocations and frees in the trace add up to the reported memory."""
    if machine.scenario.gpus and "cuda" in machine.scenario.backends and not call.memory:
        yield "the report leaves out the memory of all devices"
    for device, use in call.memory.items():
        now = use.before
        for event in events:
            if event.device == device and event.kind in _MEMORY:
                now += {Kind.ALLOCATE: event.size_bytes, Kind.FREE: -event.size_bytes}.get(event.kind, 0)
                if now != event.allocated:
                    yield f"memory of {device} changed, but the trace does not explain it"
                    return
        if now != use.after:  # a program may reset the peak
            yield f"memory of {device} does not match the trace"


def _check_result_memory(call: Call) -> Iterator[str]:
    """Check that the arguments and the result on a device fit in the memory in use there."""
    storages: dict[str, dict[int, int]] = {}
    results = [tensor.fact for tensor in tensors_by_path(call.output).values()]
    for fact in (*results, *(fact for fact in call.arguments.values() if fact.layout == "strided")):
        storage = storages.setdefault(fact.device, {})
        storage[fact.storage] = max(storage.get(fact.storage, 0), _extent(fact))
    for device, sizes in storages.items():
        if device in call.memory and sum(sizes.values()) > call.memory[device].after:
            yield f"the result needs more memory than {device} had allocated"


def _check_result_writes(call: Call, events: list[Event]) -> Iterator[str]:
    """Check that a kernel, copy or collective wrote each result whose memory the call allocated."""
    given = {(fact.device, fact.storage) for fact in call.arguments.values()}
    for tensor in tensors_by_path(call.output).values():
        fact = tensor.fact
        needed = tensor.values.numel() * tensor.values.element_size()
        if fact.device == "cpu" or (fact.device, fact.storage) in given or fact.layout != "strided":
            continue
        needed = min(needed, _extent(fact))
        taken = (
            place
            for place, event in enumerate(events)
            if event.kind is Kind.ALLOCATE and event.device == fact.device and event.size_bytes >= needed
        )
        if not needed or (begin := next(taken, None)) is None or not tensor.values.count_nonzero():
            continue  # allocated before the call, or all zeros like new memory
        while begin and events[begin].kind in _MEMORY:
            begin -= 1  # an operator is recorded before the memory of its result
        later = [event for event in events[begin:] if event.kind in _WRITERS]
        on_device = [event for event in later if fact.device in (event.device, event.source, event.target)]
        if any(event.kind is Kind.COLLECTIVE for event in on_device):
            continue  # a collective records the bytes that it sends, not those that it receives
        if 2 * sum(event.size_bytes for event in on_device) < needed:
            yield f"the result on {fact.device} has values that no kernel and no copy of the trace wrote"
            return


def _check_shared_memory(call: Call) -> Iterator[str]:
    """Check that a result that is the same view as an argument has the same values."""
    views = {_view(fact): path for path, fact in call.arguments.items() if fact.layout == "strided"}
    for tensor in tensors_by_path(call.output).values():
        path = views.get(_view(tensor.fact), "")
        if path in call.after and tensor.values.numel():
            [digest] = Encoder().digests({"result": tensor.values}).values()
            if digest != call.after[path]:
                yield f"the result has the memory of the argument {path}, but other values"
                return


def _view(fact: TensorFact) -> tuple[object, ...]:
    return fact.device, fact.storage, fact.offset, fact.shape, fact.strides, fact.dtype


def _extent(fact: TensorFact) -> int:
    """Return the bytes of the storage between a tensor's first and last element."""
    if 0 in fact.shape:
        return 0
    steps = sum((length - 1) * stride for length, stride in zip(fact.shape, fact.strides, strict=True))
    return (steps + 1) * DTYPES[fact.dtype].itemsize


def _check_order(call: Call, events: list[Event]) -> Iterator[str]:
    """Check that each stream does one thing at a time, after its launch and within the call."""
    streams: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for event in events:
        if event.kind in _WORK and event.device != "cpu" and event.start >= 0:
            if event.start < event.launched or event.end < event.start:
                yield f"work on {event.device} began before it was launched"
                return
            if event.launched < call.span.started:
                yield f"work on {event.device} was launched before the call began"
                return
            if event.end > call.span.finished:
                yield f"work on {event.device} ended after the call"
                return
            streams.setdefault((event.device, event.stream), []).append((event.start, event.end))
    for (device, stream), times in streams.items():
        times.sort()
        if any(later[0] < before[1] for before, later in itertools.pairwise(times)):
            yield f"stream {stream} of {device} did two operations at once"


def _check_speed(events: list[Event], gpu: GpuSpec) -> Iterator[str]:
    """Check that no copy is faster than its link, and no kernel than the GPU. Times are rounded to nanoseconds."""
    link = max(gpu.pinned_bytes_per_s, gpu.pageable_bytes_per_s)
    peak = max(
        *(gpu.float64_flops, gpu.float64_tensor_flops, gpu.float32_flops, gpu.tf32_flops),
        *(gpu.float16_flops, gpu.bfloat16_flops, gpu.float8_flops, gpu.int8_flops),
    )
    factors = fitted()
    memory = gpu.bytes_per_s * factors["memory.l2_speedup"] * _BEYOND_L2
    for event in events:
        if event.start < 0 or event.device == "cpu":
            continue
        took = (event.end - event.start + 1) / 1e9
        rate = gpu.peer_bytes_per_s if event.between_devices else link
        if event.kind is Kind.TRANSFER and took < event.size_bytes / rate:
            yield f"a copy was faster than any link of {event.device}"
            return
        if event.kind is not Kind.KERNEL:
            continue
        least = max(event.flops / peak, FLOOR_S if event.size_bytes else 0.0)
        if took < (max(least, event.size_bytes / memory) if event.name in _DENSE else least):
            yield f"a kernel was faster than {event.device} can be"
            return


def _check_waits(call: Call, events: list[Event]) -> Iterator[str]:
    """Check that the host waited for each synchronous copy to it, and that no wait runs backwards."""
    waits = [event for event in events if event.kind is Kind.SYNCHRONISE and event.start >= 0]
    if any(not call.span.started <= event.start <= event.end <= call.span.finished for event in waits):
        yield "a wait of the host runs backwards, or is not within the call"
    copies = sum(event.to_host and not event.asynchronous for event in events)
    if copies > sum(event.kind is Kind.SYNCHRONISE for event in events):
        yield "the host did not wait for copies to it"

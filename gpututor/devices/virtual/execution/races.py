"""Data races: memory that one stream reads or writes while another writes it, without an event or wait in between.

On a GPU such a program gives wrong results now and then. Here everything runs in the order of the calls, so the values
are right, and the trace records the race. Only the program's waits and events count
(`gpututor.devices.virtual.clock.machine_clock.HappensBefore`), not the modelled times. Hazards:

- `read after write`, `write after read`, `write after write`: between two streams;
- `freed in use`: without `record_stream`, memory returns to the stream that allocated it while another stream uses it.
  The memory is used again before the first stream waits for the other;
- `graphs share a pool`: two graphs that have memory in common are replayed at the same time (`graph_memory`);
- `freed before a replay`: a replay uses the memory of a tensor from before its capture that is gone;
- `host read during copy`, `host write during copy`: the host uses page-locked memory during an asynchronous copy.

Each node of a backward pass runs on the stream of its forward operator, and autograd's engine inserts waits
(`gpututor.devices.virtual.api.backward`). So a backward pass reports no hazards, and its reads of other streams' memory
are ignored afterwards. Any stream that waited may use and free its gradients.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import torch

from gpututor.devices.virtual import torch_private
from gpututor.devices.virtual.clock.timeline import StreamTask
from gpututor.devices.virtual.execution import costs
from gpututor.devices.virtual.execution.pinned_memory import pinned_memory
from gpututor.devices.virtual.machine import VirtualGpu, VirtualMachine
from gpututor.devices.virtual.memory.allocator import Allocation
from gpututor.devices.virtual.operator_registry import Operator

READ_AFTER_WRITE = "read after write"
WRITE_AFTER_READ = "write after read"
WRITE_AFTER_WRITE = "write after write"
HOST_READ = "host read during copy"
HOST_WRITE = "host write during copy"


def record_kernel_access(
    machine: VirtualMachine, gpu: VirtualGpu, op: Operator, tensors: Sequence[Any], call: Any, access: StreamTask
) -> None:
    """Record an operator's reads of virtual `tensors` and its writes, by the operator's schema.

    `call` is its (arguments, keywords) on the CPU.
    """
    if op.facts.reads_shapes:
        return
    if not op.writes:
        if not machine.clock.order.active:
            for tensor in tensors:
                tensor._block.read = access
            return
        written: set[int] = set()
    else:
        written = {id(host) for host in op.written_among(*call)}
    by_engine = access.in_backward = machine.clock.order.active and torch_private.in_backward()
    for tensor in tensors:
        if id(tensor._host) in written:
            _write(machine, tensor._block, access, by_engine=by_engine)
        else:
            _read(machine, tensor._block, access, by_engine=by_engine)


def record_copy(
    machine: VirtualMachine, access: StreamTask | None, source: Any, target: Any, *, asynchronous: bool
) -> None:
    """Record a copy between two tensors, virtual or on the host; `access` is None before the launch, for a capture."""
    if access is None:
        capture = machine.capture
        for tensor in (source, target):
            gpu = machine.home(tensor._device) if hasattr(tensor, "_block") else None
            if capture is not None and gpu and capture.includes(gpu.index, machine.stream_of(gpu)):
                (capture.reads if tensor is source else capture.writes)(tensor._block)
        return
    order = machine.clock.order
    by_engine = access.in_backward = order.active and torch_private.in_backward()
    for tensor, writes in ((source, False), (target, True)):
        if tensor is None:
            continue
        if hasattr(tensor, "_block"):
            (_write if writes else _read)(machine, tensor._block, access, by_engine=by_engine)
            continue
        for other in machine.pending_copies.of(tensor, order) if machine.pending_copies else ():
            if (writes or other.writes) and not order.is_before(other.access, *access.key):
                name = READ_AFTER_WRITE if not writes else WRITE_AFTER_WRITE if other.writes else WRITE_AFTER_READ
                report(machine, name, other.access, access)
        if asynchronous:
            pinned_memory(machine).used(tensor, access.key)
            machine.pending_copies.add(tensor, access, order, writes=writes)


def record_captured_operator(
    machine: VirtualMachine, gpu: VirtualGpu, op: Operator, tensors: Sequence[Any], call: Any, out: Any
) -> None:
    """Record that an operator of a captured graph reads `tensors`, writes some of them and returns `out`."""
    capture = machine.capture
    if capture is None or not capture.includes(gpu.index, machine.stream_of(gpu)):
        return
    written = {id(host) for host in op.written_among(*call)}
    for tensor in () if op.facts.reads_shapes else tensors:
        (capture.writes if id(tensor._host) in written else capture.reads)(tensor._block)
    for result in costs.tensors_of(out):
        if hasattr(result, "_block") and not any(result._block is tensor._block for tensor in tensors):
            capture.makes(result)


def record_captured_result(machine: VirtualMachine, gpu: VirtualGpu, result: Any) -> None:
    """Record that a captured graph makes a virtual tensor."""
    capture = machine.capture
    if capture is not None and capture.includes(gpu.index, machine.stream_of(gpu)):
        capture.makes(result)


def record_replay(
    machine: VirtualMachine,
    access: StreamTask,
    read: Iterable[Allocation],
    written: Collection[Allocation],
    made: Collection[Allocation],
) -> None:
    """Record the memory that a replayed graph reads, writes and has allocated.

    `access` is the last task of the graph on the stream that launched it.
    """
    by_engine = access.in_backward = machine.clock.order.active and torch_private.in_backward()
    for block in list(read):
        if block not in written:
            _read(machine, block, access, by_engine=by_engine)
    for block in list(written):
        _write(machine, block, access, by_engine=by_engine)
        if block in made:
            # The graph's own memory is freed with the graph.
            _record_stream(block, access.key[1])


def record_collective(machine: VirtualMachine, access: StreamTask, used: Iterable[Any], written: Iterable[Any]) -> None:
    """Record that a collective uses virtual tensors, writes some of them and keeps their memory until it is done."""
    writes, uses = list(written), list(used)
    keep_for(access.key[1], uses)
    for tensor in uses:
        if not any(tensor is other for other in writes):
            _read(machine, tensor._block, access)
    for tensor in writes:
        _write(machine, tensor._block, access)


def record_custom_kernel(
    machine: VirtualMachine, access: StreamTask, read: Iterable[Any], written: Iterable[Any]
) -> None:
    """Record that a kernel that is not an operator reads virtual tensors and writes some of them."""
    by_engine = access.in_backward = machine.clock.order.active and torch_private.in_backward()
    writes = {id(tensor._block): tensor._block for tensor in written}
    for tensor in read:
        if id(tensor._block) not in writes:
            _read(machine, tensor._block, access, by_engine=by_engine)
    for block in writes.values():
        _write(machine, block, access, by_engine=by_engine)


def keep_for(stream: int, tensors: Iterable[Any]) -> None:
    """Call `record_stream` for virtual tensors: their memory is reused only after the current work of `stream`."""
    for tensor in tensors:
        _record_stream(tensor._block, stream)


def _record_stream(block: Allocation, stream: int) -> None:
    block.recorded = {*(block.recorded or ()), stream}


def record_host_access(machine: VirtualMachine, reads: Iterable[Any], writes: Iterable[Any] = ()) -> None:
    """Record that the host reads and writes CPU tensors; called only while copies may be pending."""
    for tensors, name in ((reads, HOST_READ), (writes, HOST_WRITE)):
        for tensor in tensors:
            if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided or tensor.is_meta:
                continue
            for copy in machine.pending_copies.of(tensor, machine.clock.order):
                if copy.writes or name == HOST_WRITE:
                    report(machine, name, copy.access, copy.access)
                    machine.pending_copies.forget(tensor, copy)


def _read(machine: VirtualMachine, block: Allocation, access: StreamTask, *, by_engine: bool = False) -> None:
    order = machine.clock.order
    if by_engine:
        if block.home != access.key[1]:
            return
    elif order.active and block.written is not None:
        _check_written(machine, READ_AFTER_WRITE, block, block.written, access)
    before = block.read
    if before is not None and before.key != access.key:
        block.other_reads = {**(block.other_reads or {}), before.key: before}
    block.read = access


def _write(machine: VirtualMachine, block: Allocation, access: StreamTask, *, by_engine: bool = False) -> None:
    order = machine.clock.order
    if by_engine:
        if block.home != access.key[1]:
            # The engine called `record_stream`.
            _record_stream(block, access.key[1])
    elif order.active:
        if block.written is not None:
            _check_written(machine, WRITE_AFTER_WRITE, block, block.written, access)
        for read in block.reads():
            if not order.is_before(read, *access.key):
                report(machine, WRITE_AFTER_READ, read, access)
    block.written, block.read, block.other_reads = access, None, None


def _check_written(
    machine: VirtualMachine, name: str, block: Allocation, written: StreamTask, access: StreamTask
) -> None:
    if not machine.clock.order.is_before(written, *access.key):
        report(machine, name, written, access)
    elif written.in_backward:
        # The current stream may use a gradient after a wait: PyTorch's notes require no `record_stream`.
        _record_stream(block, access.key[1])


def report(machine: VirtualMachine, name: str, earlier: StreamTask, access: StreamTask) -> None:
    """Record a hazard between an earlier launch and `access`."""
    gpu, stream = access.key
    now = machine.clock.host.now
    machine.recorder.hazard(name, machine.gpus[gpu].name, stream=stream, partner=earlier.row, launched=now)

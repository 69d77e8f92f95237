"""Races: memory that one stream reads or writes while another writes it, with no event or wait between.

On a GPU such a program gives wrong numbers now and then, or on another GPU; here its values are right, as everything
runs in the order of the calls, and the race is an event in the trace. What counts is what the program orders
(`gpututor.devices.virtual.clock.machine_clock`), never the times that the clock found. Names of hazards:

- `read after write`, `write after read`, `write after write`: two streams, nothing between them;
- `freed in use`: memory goes back to the stream that allocated it while another still uses it, and nobody said
  `record_stream`;
- `host read during copy`, `host write during copy`: the host uses page-locked memory that an asynchronous copy still
  writes, or changes what it still reads.

On CUDA each node of a backward pass runs on the stream of its forward, and the engine puts waits between them and
before what comes next; here all of it runs on the current stream. So nothing is reported from within a backward pass,
and what it reads of other streams' memory is not held against them afterwards. Its gradients may be used, and freed,
by any stream that waited.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import torch

from gpututor.devices.virtual import torch_private
from gpututor.devices.virtual.clock.timeline import Task
from gpututor.devices.virtual.execution import prices
from gpututor.devices.virtual.machine import VirtualGpu, VirtualMachine
from gpututor.devices.virtual.memory.allocator import Allocation
from gpututor.devices.virtual.operator_registry import Operator

READ_AFTER_WRITE = "read after write"
WRITE_AFTER_READ = "write after read"
WRITE_AFTER_WRITE = "write after write"
HOST_READ = "host read during copy"
HOST_WRITE = "host write during copy"


def record_kernel_access(
    machine: VirtualMachine, gpu: VirtualGpu, op: Operator, tensors: Sequence[Any], call: Any, access: Task
) -> None:
    """An operator's launch reads `tensors`, virtual ones, and writes those that its schema names among `call`.

    `call` is what it was called with on the CPU.
    """
    if op.facts.reads_shapes:
        return
    if not op.writes:
        if not machine.clock.order.active:
            for one in tensors:
                one._block.read = access
            return
        written: set[int] = set()
    else:
        written = {id(one) for one in op.written_among(*call)}
    by_engine = access.in_backward = machine.clock.order.active and torch_private.in_backward()
    for one in tensors:
        if id(one._host) in written:
            _write(machine, one._block, access, by_engine=by_engine)
        else:
            _read(machine, one._block, access, by_engine=by_engine)


def record_copy(machine: VirtualMachine, access: Task | None, source: Any, target: Any, *, asynchronous: bool) -> None:
    """A copy from one tensor to another, each a virtual one or on the host; None is one about to be made."""
    if access is None:
        for one in (source, target):
            gpu = machine.home(one._device) if hasattr(one, "_block") else None
            if machine.capture is not None and gpu and machine.capture.takes(gpu.index, machine.stream_of(gpu)):
                (machine.capture.read if one is source else machine.capture.written).add(one._block)
        return
    by_engine = access.in_backward = machine.clock.order.active and torch_private.in_backward()
    for one, writes in ((source, False), (target, True)):
        if one is None:
            continue
        if hasattr(one, "_block"):
            (_write if writes else _read)(machine, one._block, access, by_engine=by_engine)
            continue
        if machine.pending_copies:
            _check_other_copies(machine, one, access, writes)
        if asynchronous:
            machine.pending_copies.add(one, access, machine.clock.order, writes=writes)


def _check_other_copies(machine: VirtualMachine, tensor: torch.Tensor, access: Task, writes: bool) -> None:
    """Copies of other streams, from or to the same memory of the host."""
    order = machine.clock.order
    for one in machine.pending_copies.of(tensor, order):
        if (writes or one.writes) and not order.is_before(one.access, *access.key):
            name = READ_AFTER_WRITE if not writes else WRITE_AFTER_WRITE if one.writes else WRITE_AFTER_READ
            _report(machine, name, one.access, access)


def captured(
    machine: VirtualMachine, gpu: VirtualGpu, op: Operator, tensors: Sequence[Any], call: Any, out: Any
) -> None:
    """An operator that becomes part of a graph reads `tensors`, writes some of them, and gives `out`."""
    capture = machine.capture
    if capture is None or not capture.takes(gpu.index, machine.stream_of(gpu)):
        return
    written = {id(one) for one in op.written_among(*call)}
    for one in () if op.facts.reads_shapes else tensors:
        (capture.written if id(one._host) in written else capture.read).add(one._block)
    for one in prices.tensors_of(out):
        if hasattr(one, "_block") and not any(one._block is other._block for other in tensors):
            capture.written.add(one._block)
            capture.made.add(one._block)


def replayed(
    machine: VirtualMachine,
    access: Task,
    read: Iterable[Allocation],
    written: Collection[Allocation],
    made: Collection[Allocation],
) -> None:
    """Record the memory that a whole graph reads, writes and has made.

    `access` is the last piece of its work on the stream that launched it.
    """
    by_engine = access.in_backward = machine.clock.order.active and torch_private.in_backward()
    for block in list(read):
        if block not in written:
            _read(machine, block, access, by_engine=by_engine)
    for block in list(written):
        _write(machine, block, access, by_engine=by_engine)
        if block in made:
            # The graph's own memory, which goes back when the graph is gone.
            _keep(block, access.key[1])


def together(machine: VirtualMachine, access: Task, used: Iterable[Any], written: Iterable[Any]) -> None:
    """A collective uses virtual tensors, of which it writes some; it keeps all of them until it is done."""
    writes, uses = list(written), list(used)
    keep_for(access.key[1], uses)
    for one in uses:
        if not any(one is other for other in writes):
            _read(machine, one._block, access)
    for one in writes:
        _write(machine, one._block, access)


def keep_for(stream: int, tensors: Iterable[Any]) -> None:
    """As `record_stream` for virtual tensors: their memory goes back when what `stream` has been given is done."""
    for one in tensors:
        _keep(one._block, stream)


def _keep(block: Allocation, stream: int) -> None:
    block.recorded = {*(block.recorded or ()), stream}


def on_host(machine: VirtualMachine, reads: Iterable[Any], writes: Iterable[Any] = ()) -> None:
    """The host reads and writes those CPU tensors now. Called only while copies may be pending."""
    for tensors, name in ((reads, HOST_READ), (writes, HOST_WRITE)):
        for one in tensors:
            if isinstance(one, torch.Tensor) and one.layout is torch.strided and not one.is_meta:
                _check_pending(machine, one, name)


def _check_pending(machine: VirtualMachine, tensor: torch.Tensor, name: str) -> None:
    for one in machine.pending_copies.of(tensor, machine.clock.order):
        if one.writes or name == HOST_WRITE:
            _report(machine, name, one.access, one.access)
            machine.pending_copies.forget(tensor, one)


def _read(machine: VirtualMachine, block: Allocation, access: Task, *, by_engine: bool = False) -> None:
    order = machine.clock.order
    if by_engine:
        if block.home != access.key[1]:
            return
    elif order.active and block.written is not None:
        _check_written(machine, READ_AFTER_WRITE, block, block.written, access)
    before = block.read
    if before is not None and before.key != access.key:
        if block.other_reads is None:
            block.other_reads = {}
        block.other_reads[before.key] = before
    block.read = access


def _write(machine: VirtualMachine, block: Allocation, access: Task, *, by_engine: bool = False) -> None:
    order = machine.clock.order
    if by_engine:
        if block.home != access.key[1]:
            # On CUDA its own stream wrote to it, or the engine said `record_stream`.
            _keep(block, access.key[1])
    elif order.active:
        if block.written is not None:
            _check_written(machine, WRITE_AFTER_WRITE, block, block.written, access)
        for read in block.reads():
            if not order.is_before(read, *access.key):
                _report(machine, WRITE_AFTER_READ, read, access)
    block.written, block.read, block.other_reads = access, None, None


def _check_written(machine: VirtualMachine, name: str, block: Allocation, written: Task, access: Task) -> None:
    if not machine.clock.order.is_before(written, *access.key):
        _report(machine, name, written, access)
    elif written.in_backward:
        # A gradient, which the current stream may use after a wait: PyTorch's notes ask for no `record_stream`.
        _keep(block, access.key[1])


def _report(machine: VirtualMachine, name: str, earlier: Task, access: Task) -> None:
    gpu, stream = access.key
    now = machine.clock.host.now
    machine.recorder.hazard(name, machine.gpus[gpu].name, stream=stream, partner=earlier.row, launched=now)

"""Kernels: asynchronous launches on a GPU, and work that the host computes itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gpututor.devices.recorder import Place
from gpututor.devices.virtual import torch_private
from gpututor.devices.virtual.clock.timeline import StreamTask
from gpututor.devices.virtual.cost.kernel import Cost
from gpututor.devices.virtual.execution import costs, races
from gpututor.devices.virtual.machine import VirtualGpu, VirtualMachine
from gpututor.devices.virtual.memory.allocator import Allocation
from gpututor.devices.virtual.operator_registry import Operator


class CompiledRegion:
    """A call of compiled code while its values are computed: its operators launch nothing."""

    def __init__(self, now: int) -> None:
        self.read: set[Allocation] = set()
        self.written: set[Allocation] = set()
        self.host_time = now
        """The host's time at the start, or at the end of the last copy between devices."""

    def add(self, op: Operator, tensors: Sequence[Any], call: Any) -> None:
        """Record the memory that an operator reads and writes."""
        if op.facts.reads_shapes:
            return
        written = {id(host) for host in op.written_among(*call)} if op.writes else ()
        for tensor in tensors:
            (self.written if id(tensor._host) in written else self.read).add(tensor._block)

    def add_results(self, results: Any) -> None:
        """Record the memory of results as written, unless it was only read, as a view of an argument."""
        for tensor in torch_private.tree_leaves(results):
            if hasattr(tensor, "_block") and tensor._block not in self.read:
                self.written.add(tensor._block)


def compiled_kernel(
    machine: VirtualMachine,
    gpu: VirtualGpu,
    name: str,
    size_bytes: int,
    cost: Cost,
    place: Place | None,
    *,
    on_host: bool,
) -> StreamTask | None:
    """Launch a kernel of compiled code; it costs the host nothing if a CUDA graph launches it.

    Return the launch; None in a capture.
    """
    capture = machine.capture
    if capture is not None and capture.includes(gpu.index, machine.stream_of(gpu)):
        capture.add(lambda: None, (name,))
    return _launch(machine, gpu, name, size_bytes, cost if on_host else replace(cost, host=0), place)


def kernel(
    machine: VirtualMachine, gpu: VirtualGpu, op: Operator, tensors: Sequence[Any], size_bytes: int, out: Any, call: Any
) -> None:
    """Launch an operator's kernels on the current stream of `gpu`.

    `tensors` are its virtual inputs, and `size_bytes` the bytes of inputs and outputs. `out` is its result and `call`
    its (arguments, keywords), both on the CPU.
    """
    region = machine.per_thread.region
    if region is not None:
        region.add(op, tensors, call)
        gpu.memory.of_thread.writer = None
        return
    read = tensors
    if op.out_names and call[1]:
        # The kernel writes `out=` and does not read it.
        outs = {id(call[1].get(name)) for name in op.out_names}
        read = [tensor for tensor in tensors if id(tensor._host) not in outs]
        size_bytes -= sum(tensor._host.nbytes for tensor in tensors if id(tensor._host) in outs)
    cost = costs.cost_on_gpu(gpu.spec, op, read, size_bytes, out, call)
    # The two nearest callers are never learner code.
    place = machine.recorder.place(2) if machine.recorder.enabled else None
    access = _launch(machine, gpu, op.name, size_bytes, cost, place)
    if access is not None:
        races.record_kernel_access(machine, gpu, op, tensors, call, access)


def kernel_of_bytes(machine: VirtualMachine, gpu: VirtualGpu, name: str, size_bytes: int) -> StreamTask | None:
    """Launch a kernel, such as a copy on one device, that reads and writes `size_bytes` in total.

    Return the launch, for `races`; None in a capture.
    """
    return _launch(machine, gpu, name, size_bytes, costs.cost_of_bytes(gpu.spec, name, size_bytes))


def kernel_of_length(machine: VirtualMachine, gpu: VirtualGpu, name: str, duration: int, fill: int) -> None:
    """Launch a kernel of `duration` nanoseconds that needs `fill` millionths of the GPU."""
    _launch(machine, gpu, name, 0, Cost(duration, fill, gpu.launch_ns, 0.0))


def _launch(
    machine: VirtualMachine, gpu: VirtualGpu, name: str, size_bytes: int, cost: Cost, place: Place | None = None
) -> StreamTask | None:
    stream = machine.stream_of(gpu)
    if machine.per_thread.region is not None:
        gpu.memory.of_thread.writer = None
        return None
    capture = machine.capture
    if capture is not None and capture.includes(gpu.index, stream):
        capture.kernel(stream, name, size_bytes, cost)
        gpu.memory.of_thread.writer = None
        return None
    return launch(machine, gpu, stream, name, size_bytes, cost, place)


def launch(
    machine: VirtualMachine,
    gpu: VirtualGpu,
    stream: int,
    name: str,
    size_bytes: int,
    cost: Cost,
    place: Place | None = None,
) -> StreamTask:
    """Launch a kernel into a stream and record it."""
    clock, recorder = machine.clock, machine.recorder
    row = -1
    if recorder.enabled:
        launched, flops = clock.host.now + cost.host, cost.flops
        row = recorder.kernel(
            name, gpu.name, size_bytes, stream=stream, flops=flops, dtype=cost.dtype, launched=launched, place=place
        )
    else:
        recorder.unseen(gpu.name)
    task = clock.launch(gpu.index, stream, cost.duration, cost.fill, cost.host, row)
    if cost.host_after:
        clock.host.spend(cost.host_after)
    task.place, task.size_bytes = place, size_bytes
    gpu.memory.of_thread.writer = task
    return task


def host_kernel(machine: VirtualMachine, op: Operator, args: Sequence[Any], size_bytes: int, out: Any) -> None:
    """Run an operator on the CPU, which takes the host's time."""
    _on_host(machine, op.name, size_bytes, costs.cost_on_cpu(op, costs.tensors_of(tuple(args)), out, (args, {})))


def host_copy(machine: VirtualMachine, name: str, size_bytes: int) -> None:
    """Copy within the host's memory; `size_bytes` are read and written in total."""
    _on_host(machine, name, size_bytes, costs.cost_of_host_bytes(name, size_bytes))


def _on_host(machine: VirtualMachine, name: str, size_bytes: int, cost: Cost) -> None:
    host, recorder = machine.clock.host, machine.recorder
    began = host.now
    host.spend(cost.host)
    if recorder.enabled:
        now, flops = host.now, cost.flops
        recorder.kernel(name, "cpu", size_bytes, flops=flops, dtype=cost.dtype, launched=began, start=began, end=now)

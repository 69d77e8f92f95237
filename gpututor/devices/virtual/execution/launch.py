"""Kernels: on a GPU they are launched and the host goes on; on the CPU the host computes them itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpututor.devices.recorder import Place
from gpututor.devices.virtual.clock.timeline import Task
from gpututor.devices.virtual.cost.kernel import Cost
from gpututor.devices.virtual.execution import prices, races
from gpututor.devices.virtual.machine import VirtualGpu, VirtualMachine
from gpututor.devices.virtual.operator_registry import Operator


def kernel(
    machine: VirtualMachine, gpu: VirtualGpu, op: Operator, tensors: Sequence[Any], size_bytes: int, out: Any, call: Any
) -> None:
    """Launch an operator's kernels on the current stream of `gpu`.

    `tensors` are its virtual inputs, `size_bytes` the bytes of inputs and outputs, `out` what the CPU gave, `call` the
    (arguments, keywords) that it was called with on the CPU.
    """
    cost = prices.cost_on_gpu(gpu.spec, op, tensors, size_bytes, out, call)
    # This function's caller is no learner, and neither is that one's.
    place = machine.recorder.place(2) if machine.recorder.enabled else None
    access = _launch(machine, gpu, op.name, size_bytes, cost, place)
    if access is not None:
        races.record_kernel_access(machine, gpu, op, tensors, call, access)


def kernel_of_bytes(machine: VirtualMachine, gpu: VirtualGpu, name: str, size_bytes: int) -> Task | None:
    """Launch a kernel that reads and writes so many bytes together, such as a copy on one device.

    Gives the launch, for `hazards`; None in a capture.
    """
    return _launch(machine, gpu, name, size_bytes, prices.cost_of_bytes(gpu.spec, name, size_bytes))


def kernel_of_length(machine: VirtualMachine, gpu: VirtualGpu, name: str, duration: int, fill: int) -> None:
    """Launch a kernel that takes so many nanoseconds and that share of the GPU, in millionths."""
    _launch(machine, gpu, name, 0, Cost(duration, fill, gpu.launch_ns, 0.0))


def _launch(
    machine: VirtualMachine, gpu: VirtualGpu, name: str, size_bytes: int, cost: Cost, place: Place | None = None
) -> Task | None:
    stream = machine.stream_of(gpu)
    capture = machine.capture
    if capture is not None and capture.takes(gpu.index, stream):
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
) -> Task:
    """Put a kernel into a stream, and into the trace."""
    clock, recorder = machine.clock, machine.recorder
    row = -1
    if recorder.enabled:
        launched = clock.host.now + cost.host
        row = recorder.kernel(
            name,
            gpu.name,
            size_bytes,
            stream=stream,
            flops=cost.flops,
            dtype=cost.dtype,
            launched=launched,
            place=place,
        )
    else:
        recorder.unseen(gpu.name)
    task = clock.launch(gpu.index, stream, cost.duration, cost.fill, cost.host, row)
    task.place = place
    gpu.memory.of_thread.writer = task
    return task


def host_kernel(machine: VirtualMachine, op: Operator, args: Sequence[Any], size_bytes: int, out: Any) -> None:
    """An operator on the CPU, which takes the host that long."""
    inputs = prices.tensors_of(tuple(args))
    cost = prices.cost_on_cpu(op, inputs, out, (args, {}))
    _on_host(machine, op.name, size_bytes, cost)


def host_copy(machine: VirtualMachine, name: str, size_bytes: int) -> None:
    """A copy within the host's memory, of which `size_bytes` are read and written together."""
    _on_host(machine, name, size_bytes, prices.cost_of_host_bytes(name, size_bytes))


def _on_host(machine: VirtualMachine, name: str, size_bytes: int, cost: Cost) -> None:
    host, recorder = machine.clock.host, machine.recorder
    began = host.now
    host.spend(cost.host)
    if recorder.enabled:
        recorder.kernel(
            name,
            "cpu",
            size_bytes,
            flops=cost.flops,
            dtype=cost.dtype,
            launched=began,
            start=began,
            end=host.now,
        )

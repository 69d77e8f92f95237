"""Copies on the clock: between devices and hosts, from pinned memory, and of bytes that were copied before.

Fresh pages are touched and locked one after another (cudaHostAlloc); PyTorch keeps what is freed, in blocks of a power
of two of bytes, and hands it out again (aten/src/ATen/core/CachingHostAllocator.h).
"""

from __future__ import annotations

import weakref
from collections import Counter

import torch

from gpututor.devices.virtual import cuda_errors, torch_private
from gpututor.devices.virtual.clock.timeline import Task
from gpututor.devices.virtual.cost import links
from gpututor.devices.virtual.execution import waits
from gpututor.devices.virtual.execution.waits import record_wait
from gpututor.devices.virtual.machine import CPU, UploadedBytes, VirtualGpu, VirtualMachine

_OF_TENSORS = ("aten::copy_", "aten::_to_copy")
"""Copies that torch makes through its copy kernel, which looks whether the host's side is page-locked."""


def copy(
    machine: VirtualMachine,
    source: torch.device,
    target: torch.device,
    size_bytes: int,
    name: str,
    *,
    asynchronous: bool = False,
    pinned: bool = False,
) -> Task | None:
    """A copy of `size_bytes` from one device to another, on the current stream of the GPU that is part of it.

    Unless it is `asynchronous` the host waits for it; `pinned` says whether the host's side is page-locked. A copy of
    nothing is none. Gives the launch, for `hazards`; None in a capture, or for nothing.
    """
    if size_bytes == 0:
        return None
    if source.type == "cpu":
        gpu = machine.gpus[target.index]
        return _over_pcie(machine, gpu, "h2d", size_bytes, name, asynchronous, pinned)
    if target.type == "cpu":
        gpu = machine.gpus[source.index]
        began = machine.clock.host.now + gpu.launch_ns
        access = _over_pcie(machine, gpu, "d2h", size_bytes, name, asynchronous, pinned)
        if not asynchronous:
            record_wait(machine, gpu, name, machine.stream_of(gpu), began)
        return access
    return _between_gpus(machine, machine.gpus[source.index], machine.gpus[target.index], size_bytes, name)


def copy_to_host(machine: VirtualMachine, source: torch.device, size_bytes: int, name: str) -> None:
    """A blocking copy to pageable memory, as `.item()` and `print` make them: one copy, one wait."""
    copy(machine, source, CPU, size_bytes, name)


def _over_pcie(
    machine: VirtualMachine,
    gpu: VirtualGpu,
    direction: links.Direction,
    size_bytes: int,
    name: str,
    asynchronous: bool,
    pinned: bool,
) -> Task | None:
    """Put it on the clock and into the trace."""
    stream = machine.stream_of(gpu)
    capture = machine.capture
    captured = capture is not None and capture.takes(gpu.index, stream)
    if captured and not pinned and name in _OF_TENSORS:
        raise cuda_errors.capture_of_pageable()
    if not asynchronous:
        waits.wait_for_stream(machine, gpu, stream)
    duration = round(links.copy_s(gpu.spec, size_bytes, pinned=pinned, direction=direction) * 1e9)
    if capture is not None and captured:
        capture.copy(stream, name, size_bytes, direction, duration)
        return None
    return put_copy(
        machine, gpu, stream, size_bytes, name, direction, duration, gpu.launch_ns, asynchronous=asynchronous
    )


def put_copy(
    machine: VirtualMachine,
    gpu: VirtualGpu,
    stream: int,
    size_bytes: int,
    name: str,
    direction: str,
    duration: int,
    cost: int,
    *,
    asynchronous: bool,
) -> Task:
    """Put a copy between host and GPU into a stream, and into the trace; `cost` is the host's, in nanoseconds."""
    clock, recorder = machine.clock, machine.recorder
    row = -1
    if recorder.enabled:
        source, target = ("cpu", gpu.name) if direction == "h2d" else (gpu.name, "cpu")
        launched = clock.host.now + cost
        row = recorder.transfer(source, target, size_bytes, asynchronous, name, stream=stream, launched=launched)
    else:
        recorder.unseen(gpu.name)
    task = clock.copy(gpu.index, stream, duration, direction, cost, asynchronous=asynchronous, row=row)
    gpu.memory.of_thread.writer = task
    return task


def _between_gpus(machine: VirtualMachine, source: VirtualGpu, target: VirtualGpu, size_bytes: int, name: str) -> Task:
    """On the source's stream, and the target's waits: both see the copy in their order (Copy.cu)."""
    clock, recorder = machine.clock, machine.recorder
    here, there = machine.stream_of(source), machine.stream_of(target)
    capture = machine.capture
    if capture is not None and (capture.takes(source.index, here) or capture.takes(target.index, there)):
        raise cuda_errors.unsupported("CUDA graphs on several GPUs", "Capture one graph for each GPU.")
    row = -1
    if recorder.enabled:
        launched = clock.host.now + source.launch_ns
        row = recorder.transfer(source.name, target.name, size_bytes, True, name, stream=here, launched=launched)
    else:
        recorder.unseen(source.name)
    clock.wait_for(source.index, here, clock.record(target.index, there))
    duration = round(links.peer_s(source.spec, size_bytes) * 1e9)
    task = clock.copy(source.index, here, duration, "p2p", source.launch_ns, asynchronous=True, row=row)
    clock.wait_for(target.index, there, clock.record(source.index, here))
    target.memory.of_thread.writer = task
    return task


_LOCKED_BYTES_PER_S = 2e9
"""An estimate, for pages that nobody touched before."""
_CALL_NS = 50_000
_kept: weakref.WeakKeyDictionary[VirtualMachine, Counter[int]] = weakref.WeakKeyDictionary()
"""Blocks of each size that were page-locked and freed."""


def lock(machine: VirtualMachine, storage: object, size_bytes: int) -> None:
    """`storage` gets page-locked memory; its block is free when it dies."""
    if size_bytes <= 0:
        return
    block = 1 << (size_bytes - 1).bit_length()
    kept = _kept.setdefault(machine, Counter())
    if kept[block] > 0:
        kept[block] -= 1
    else:
        machine.clock.host.spend(_CALL_NS + round(block / _LOCKED_BYTES_PER_S * 1e9))
    weakref.finalize(storage, _free, kept, block)


def copied(machine: VirtualMachine, began: int, size_bytes: int) -> None:
    """One thread copied so many bytes into page-locked memory since `began`, no faster than the driver stages them."""
    if machine.gpus:
        seconds = size_bytes / machine.gpus[0].spec.pageable_bytes_per_s
        machine.clock.host.wait_until(began + round(seconds * 1e9))


def _free(kept: Counter[int], block: int) -> None:
    kept[block] += 1


_MOST = 10_000
"""Copies that are remembered; a program with more tensors than that on the host starts anew."""


def brought(machine: VirtualMachine, source: torch.Tensor, gpu: int, access: Task | None) -> None:
    """A CPU tensor was copied to that GPU: tell the trace if the same bytes were before."""
    if access is None or access.row < 0 or source.is_inference() or source.layout is not torch.strided:
        return
    with torch_private.host_only():
        storage = source.untyped_storage()
        view = (source.storage_offset(), source.shape, source.stride(), source.dtype)
        key, version = (storage._cdata, gpu), source._version
    before = machine.brought.get(key)
    if before is not None and before.storage() is storage and before.version == version and before.view == view:
        machine.recorder.repeats(access.row, before.row)
    if len(machine.brought) >= _MOST:
        machine.brought.clear()
    machine.brought[key] = UploadedBytes(weakref.ref(storage), version, view, access.row)

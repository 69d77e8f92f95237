"""Copies on the modelled clock, and the detection of uploads that repeat the same bytes."""

from __future__ import annotations

import weakref

import torch

from gpututor.devices.virtual import cuda_errors, torch_private
from gpututor.devices.virtual.clock.timeline import StreamTask
from gpututor.devices.virtual.cost import links
from gpututor.devices.virtual.execution import waits
from gpututor.devices.virtual.machine import CPU, UploadedBytes, VirtualGpu, VirtualMachine

_OF_TENSORS = ("aten::copy_", "aten::_to_copy")
"""Operators whose copy kernel allows only page-locked host memory in a capture."""
_MAX_UPLOADS = 10_000
"""Uploads that are remembered before all are forgotten."""


def copy(
    machine: VirtualMachine,
    source: torch.device,
    target: torch.device,
    size_bytes: int,
    name: str,
    *,
    asynchronous: bool = False,
    pinned: bool = False,
) -> StreamTask | None:
    """Copy `size_bytes` between two devices, on the current stream of the GPU, or of the source GPU.

    The host waits unless the copy is `asynchronous`; `pinned` is True if the host's memory is page-locked. Return the
    launch, for `races`; None in a capture or for no bytes. Raise CUDA's errors for copies that a capture forbids.
    """
    if size_bytes == 0:
        return None
    to_host = target.type == "cpu"
    if source.type != "cpu" and not to_host:
        return _between_gpus(machine, machine.gpus[source.index], machine.gpus[target.index], size_bytes, name)
    gpu = machine.gpus[source.index if source.type != "cpu" else target.index]
    direction: links.Direction = "h2d" if source.type == "cpu" else "d2h"
    stream, capture = machine.stream_of(gpu), machine.capture
    captured = capture is not None and capture.includes(gpu.index, stream)
    if captured and not pinned and name in _OF_TENSORS:
        raise cuda_errors.capture_of_pageable()
    if not asynchronous:
        waits.wait_for_stream(machine, gpu, stream)
    duration = round(links.copy_s(gpu.spec, size_bytes, pinned=pinned, direction=direction) * 1e9)
    if capture is not None and captured:
        capture.copy(stream, name, size_bytes, direction, duration)
        return None
    cost = gpu.launch_ns
    began = machine.clock.host.now + cost
    task = launch_copy(machine, gpu, stream, size_bytes, name, direction, duration, cost, asynchronous=asynchronous)
    region = machine.per_thread.region
    if region is not None:
        region.host_time = machine.clock.host.now
    if to_host and not asynchronous:
        waits.record_wait(machine, gpu, name, stream, began)
    return task


def copy_to_host(machine: VirtualMachine, source: torch.device, size_bytes: int, name: str) -> None:
    """Copy to pageable memory and wait, as `.item()` and `print` do."""
    copy(machine, source, CPU, size_bytes, name)


def launch_copy(
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
) -> StreamTask:
    """Launch a copy between host and GPU into a stream and record it; `cost` is the host's time in nanoseconds."""
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


def _between_gpus(
    machine: VirtualMachine, source: VirtualGpu, target: VirtualGpu, size_bytes: int, name: str
) -> StreamTask:
    """Copy on the source's stream. Both streams wait for each other, as in Copy.cu."""
    clock, recorder = machine.clock, machine.recorder
    here, there = machine.stream_of(source), machine.stream_of(target)
    capture = machine.capture
    if capture is not None and (capture.includes(source.index, here) or capture.includes(target.index, there)):
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


def spend_host_copy(machine: VirtualMachine, began: int, size_bytes: int) -> None:
    """Advance the host to the end of a copy into page-locked memory by one thread, which started at `began`."""
    if machine.gpus:
        seconds = size_bytes / machine.gpus[0].spec.pageable_bytes_per_s
        machine.clock.host.wait_until(began + round(seconds * 1e9))


def record_upload(machine: VirtualMachine, source: torch.Tensor, gpu: int, access: StreamTask | None) -> None:
    """Remember the upload of a CPU tensor to a GPU, and record it if the same bytes were uploaded before."""
    if access is None or access.row < 0 or source.is_inference() or source.layout is not torch.strided:
        return
    with torch_private.host_only():
        storage = source.untyped_storage()
        view = (source.storage_offset(), source.shape, source.stride(), source.dtype)
        key, version = (storage._cdata, gpu), source._version
    before = machine.uploads.get(key)
    if before is not None and before.storage() is storage and before.version == version and before.view == view:
        machine.recorder.trace.set_partner(access.row, before.row)
    if len(machine.uploads) >= _MAX_UPLOADS:
        machine.uploads.clear()
    machine.uploads[key] = UploadedBytes(weakref.ref(storage), version, view, access.row)

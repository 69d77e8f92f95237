"""Copies between devices: the bytes that are transferred, the device that converts the dtype, the host's waits.

As in aten/src/ATen/native/cuda/Copy.cu, a blocking copy between host and GPU converts on the CPU. So a host-to-device
copy transfers the new dtype, and a device-to-host copy the old dtype. A non-blocking copy converts on the GPU instead.
Between two GPUs with peer access, the source converts. The host continues only if its memory is pinned.
"""

from __future__ import annotations

import weakref

import torch

from gpututor.devices.virtual import execution, torch_private
from gpututor.devices.virtual.clock.timeline import StreamTask
from gpututor.devices.virtual.execution.pinned_memory import pinned_memory
from gpututor.devices.virtual.machine import active_machine

_SATURATING = (torch.int32, torch.int64)
_pinned_storages: dict[int, weakref.ref[torch.UntypedStorage]] = {}


def pin(host: torch.Tensor) -> None:
    """Move a CPU tensor into page-locked memory, and mark that memory as long as it lives."""
    with torch_private.host_only(), torch.no_grad():
        storage = host.untyped_storage()
        if storage.nbytes():
            locked = pinned_memory(active_machine()).take(storage.nbytes())
            locked.copy_(storage)
            host.set_(locked, host.storage_offset(), host.size(), host.stride())
            storage = locked
        key = storage._cdata
        _pinned_storages[key] = weakref.ref(storage)
        # A storage's Python object lives as long as its memory. An attribute would be saved with the tensor.
        weakref.finalize(storage, _pinned_storages.pop, key, None)


def pinned(tensor: torch.Tensor) -> bool:
    """Return True if a CPU tensor's memory is marked as page-locked."""
    if not _pinned_storages or tensor.layout is not torch.strided:
        return False
    with torch_private.host_only():
        return torch_private.storage_id(tensor) in _pinned_storages


def forget_pinned() -> None:
    _pinned_storages.clear()


def saturate(
    target: torch.Tensor, source: torch.Tensor, devices: tuple[torch.device, torch.device], non_blocking: bool
) -> None:
    """Correct the integers of a copy from the first device to the second if a GPU converts them.

    GPUs convert numbers out of range to the nearest integer. NaN becomes 0, or the least integer if either type has 64
    bits (PTX ISA, `cvt`).
    """
    gpus = sum(device.type == "cuda" for device in devices)
    on_gpu = gpus == 2 or (gpus == 1 and non_blocking)
    if not on_gpu or target.dtype not in _SATURATING or not source.dtype.is_floating_point or target.is_meta:
        return
    limits = torch.iinfo(target.dtype)
    if bool((source.abs() < limits.max).all()):
        return
    is_wide = source.dtype.itemsize == 8 or target.dtype.itemsize == 8
    target.masked_fill_(source.isnan(), limits.min if is_wide else 0)
    target.masked_fill_(source >= float(limits.max), limits.max)
    target.masked_fill_(source <= float(limits.min), limits.min)


def record_copy(
    source: torch.device,
    target: torch.device,
    count: int,
    source_dtype: torch.dtype,
    target_dtype: torch.dtype,
    *,
    non_blocking: bool,
    host_pinned: bool,
    name: str,
) -> StreamTask | None:
    """Put a copy of `count` elements on the clock and record it; on one GPU it is a kernel.

    Return the launch, for race detection; None if there is none, such as for a copy on the host.
    """
    if count == 0:
        return None
    machine = active_machine()
    source_bytes, target_bytes = count * source_dtype.itemsize, count * target_dtype.itemsize
    both = source_bytes + target_bytes
    if source == target:
        if source.type == "cuda":
            return execution.kernel_of_bytes(machine, machine.home(source), name, both)
        execution.host_copy(machine, name, both)
        return None
    if source.type != "cpu" and target.type != "cpu":
        return execution.copy(machine, source, target, target_bytes, name)
    from_host = source.type == "cpu"
    converts_on_gpu = non_blocking and source_dtype is not target_dtype
    if converts_on_gpu and not from_host:
        execution.kernel_of_bytes(machine, machine.home(source), "aten::_to_copy", both)
    size_bytes = source_bytes if from_host == bool(non_blocking) else target_bytes
    asynchronous = non_blocking and host_pinned
    access = execution.copy(machine, source, target, size_bytes, name, asynchronous=asynchronous, pinned=host_pinned)
    if converts_on_gpu and from_host:
        execution.kernel_of_bytes(machine, machine.home(target), "aten::copy_", both)
    return access


def record_copy_of_bytes(source: torch.device, target: torch.device, size_bytes: int, name: str) -> None:
    """Record a blocking copy of raw bytes, such as a storage's."""
    record_copy(source, target, size_bytes, torch.uint8, torch.uint8, non_blocking=False, host_pinned=False, name=name)

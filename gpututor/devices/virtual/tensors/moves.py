"""Copies between devices: what crosses, where a dtype is converted, and whether the host waits.

As in aten/src/ATen/native/cuda/Copy.cu: a blocking copy between host and GPU converts on the CPU, so a host-to-device
copy carries the new dtype and a device-to-host copy the old one; a non-blocking copy converts on the GPU, the other way
round. Between two GPUs, with peer access, the source converts. Only for pinned host memory does the host go on.
"""

from __future__ import annotations

import weakref

import torch

from gpututor.devices.virtual import execution, torch_private
from gpututor.devices.virtual.clock.timeline import Task
from gpututor.devices.virtual.execution import copies
from gpututor.devices.virtual.machine import active_machine

_pinned_storages: dict[int, weakref.ref[torch.UntypedStorage]] = {}


def pin(host: torch.Tensor) -> None:
    """Remember that the memory of a CPU tensor counts as page-locked, as long as it lives."""
    with torch_private.host_only():
        storage = host.untyped_storage()
        key = storage._cdata
        _pinned_storages[key] = weakref.ref(storage)
        # The Python object of a storage lives as long as its memory. Nothing is kept on the tensor: it would be saved.
        weakref.finalize(storage, _pinned_storages.pop, key, None)
        copies.lock(active_machine(), storage, storage.nbytes())


def pinned(tensor: torch.Tensor) -> bool:
    """Whether a CPU tensor's memory counts as page-locked."""
    if not _pinned_storages or tensor.layout is not torch.strided:
        return False
    with torch_private.host_only():
        return torch_private.storage_id(tensor) in _pinned_storages


def forget_pinned() -> None:
    _pinned_storages.clear()


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
) -> Task | None:
    """A copy of `count` elements, put on the clock and written down; on one device it is a kernel.

    Gives the launch that reads and writes, None for one that has none, such as a copy on the host.
    """
    if count == 0:
        return None
    machine = active_machine()
    source_bytes, target_bytes = count * source_dtype.itemsize, count * target_dtype.itemsize
    if source == target:
        if source.type == "cuda":
            return execution.kernel_of_bytes(machine, machine.home(source), name, source_bytes + target_bytes)
        execution.host_copy(machine, name, source_bytes + target_bytes)
        return None
    converts = source_dtype is not target_dtype
    if source.type == "cpu":
        crossing = source_bytes if non_blocking else target_bytes
        asynchronous = non_blocking and host_pinned
        access = execution.copy(machine, source, target, crossing, name, asynchronous=asynchronous, pinned=host_pinned)
        if converts and non_blocking:
            execution.kernel_of_bytes(machine, machine.home(target), "aten::copy_", source_bytes + target_bytes)
        return access
    if target.type == "cpu":
        if converts and non_blocking:
            execution.kernel_of_bytes(machine, machine.home(source), "aten::_to_copy", source_bytes + target_bytes)
        crossing = target_bytes if non_blocking else source_bytes
        asynchronous = non_blocking and host_pinned
        return execution.copy(machine, source, target, crossing, name, asynchronous=asynchronous, pinned=host_pinned)
    return execution.copy(machine, source, target, target_bytes, name)

"""Copies between devices: what crosses, where a dtype is converted, and whether the host waits.

As in aten/src/ATen/native/cuda/Copy.cu: a blocking copy between host and GPU converts on the CPU, so a host-to-device
copy carries the new dtype and a device-to-host copy the old one; a non-blocking copy converts on the GPU, the other way
round. Between two GPUs, with peer access, the source converts. Only for pinned host memory does the host go on.
"""

from __future__ import annotations

import weakref

import torch

from gpututor.devices.virtual import private
from gpututor.devices.virtual.machine import active

_pinned_storages: dict[int, weakref.ref[torch.UntypedStorage]] = {}


def pin(host: torch.Tensor) -> None:
    """Remember that the memory of a CPU tensor counts as page-locked, as long as it lives."""
    with private.host_only():
        storage = host.untyped_storage()
        key = storage._cdata
        _pinned_storages[key] = weakref.ref(storage)
        # The Python object of a storage lives as long as its memory. Nothing is kept on the tensor: it would be saved.
        weakref.finalize(storage, _pinned_storages.pop, key, None)


def pinned(tensor: torch.Tensor) -> bool:
    """Whether a CPU tensor's memory counts as page-locked."""
    if not _pinned_storages or tensor.layout is not torch.strided:
        return False
    with private.host_only():
        return private.storage_id(tensor) in _pinned_storages


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
) -> None:
    """Write down a copy of `count` elements; on one device it is a kernel."""
    recorder = active().recorder
    if count == 0 or not recorder.enabled:
        return
    source_bytes, target_bytes = count * source_dtype.itemsize, count * target_dtype.itemsize
    if source == target:
        recorder.kernel(name, str(source), source_bytes + target_bytes)
        return
    converts = source_dtype is not target_dtype
    if source.type == "cpu":
        crossing = source_bytes if non_blocking else target_bytes
        recorder.transfer("cpu", str(target), crossing, non_blocking and host_pinned, name)
        if converts and non_blocking:
            recorder.kernel("aten::copy_", str(target), source_bytes + target_bytes)
    elif target.type == "cpu":
        if converts and non_blocking:
            recorder.kernel("aten::_to_copy", str(source), source_bytes + target_bytes)
        asynchronous = non_blocking and host_pinned
        recorder.transfer(str(source), "cpu", target_bytes if non_blocking else source_bytes, asynchronous, name)
        if not asynchronous:
            recorder.synchronise(name, str(source))
    else:
        recorder.transfer(str(source), str(target), target_bytes, True, name)

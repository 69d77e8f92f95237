"""DLPack capsules of virtual tensors, for `torch.from_dlpack`.

Another library gets a capsule like CUDA's, with the device `kDLCUDA` and the modelled address. NumPy rejects that
device, and no library can mistake the host's memory for a GPU's. `torch.from_dlpack` finds the tensor by its address.
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import torch

from gpututor.devices.virtual import cuda_errors, torch_private
from gpututor.devices.virtual.machine import CPU, active_machine, python_device
from gpututor.devices.virtual.memory.allocator import Allocation
from gpututor.devices.virtual.tensors.tensor import VirtualTensor, on_device

_CPU, _CUDA = 1, 2
"""Members of `DLDeviceType`."""
# Bytes before the `DLTensor`: a version, the context, the deleter and flags in a versioned capsule (dlpack.h).
_OFFSETS = {b"dltensor": 0, b"dltensor_versioned": 32}


class _Head(ctypes.Structure):
    """Beginning of a `DLTensor`."""

    _fields_ = (("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32))


class _Exported(NamedTuple):
    """Device memory of an exported storage."""

    device: torch.device
    block: Allocation


_is_valid: Any = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.argtypes = (ctypes.py_object, ctypes.c_char_p)
_pointer: Any = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.argtypes, _pointer.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_void_p

_storages: WeakValueDictionary[tuple[int, int], torch.UntypedStorage] = WeakValueDictionary()
"""Exported storages on the host, by GPU and modelled address."""
_EXPORTED = "_virtual_memory"
"""Attribute of an exported storage. It keeps the GPU memory allocated as long as a capsule holds the storage."""


def _head_of(capsule: Any) -> _Head | None:
    """Return the tensor in a capsule; None for any other object, and for a capsule that has been used."""
    if type(capsule).__name__ != "PyCapsule":
        return None
    for name, offset in _OFFSETS.items():
        if _is_valid(capsule, name):
            return _Head.from_address(_pointer(capsule, name) + offset)
    return None


def _moved(tensor: VirtualTensor, dl_device: Any, copy: bool | None) -> torch.Tensor:
    """Return the tensor on the device that the consumer wants (torch/csrc/utils/tensor_new.cpp: maybeCopyTensor)."""
    wanted = tensor._device if dl_device is None else _device(*dl_device)
    if wanted != tensor._device:
        if copy is False:
            raise ValueError(f"cannot move (i.e. copy=False) tensor from {tensor._device} to {wanted} without copying.")
        return tensor.to(wanted)
    return tensor.clone() if copy else tensor


def _device(kind: Any, index: int) -> torch.device:
    if int(kind) not in (_CPU, _CUDA):
        raise BufferError(f"Unsupported device_type: {int(kind)}")
    return CPU if int(kind) == _CPU else python_device(index)


def _export(real: Any, tensor: Any, dl_device: Any, copy: bool | None, more: dict[str, Any]) -> Any:
    """Return a capsule of a tensor on a device. `real` is torch's function for CPU tensors, `more` its options."""
    if type(tensor) is not VirtualTensor:
        options = {name: value for name, value in (("dl_device", dl_device), ("copy", copy)) if value is not None}
        return real(tensor, **options, **more)
    active_machine().home(tensor._device)
    tensor = _moved(tensor, dl_device, copy)
    if type(tensor) is not VirtualTensor:
        return real(tensor, **more)
    host, block = tensor._host, tensor._block
    if host.is_meta:
        raise cuda_errors.NoValues("Tensor.__dlpack__()")
    with torch_private.host_only():
        capsule = real(host.detach(), **more)
        storage = host.untyped_storage()
    head = _head_of(capsule)
    assert head is not None
    offset = (head.data or 0) - storage.data_ptr() if head.data else 0
    setattr(storage, _EXPORTED, _Exported(tensor._device, block))
    head.data, head.device_type, head.device_id = block.address + offset, _CUDA, tensor._device.index
    _storages[head.device_id, block.address] = storage
    return capsule


def to_dlpack(tensor: Any, dl_device: Any = None, copy: bool | None = None) -> Any:
    return _export(torch_private.to_dlpack, tensor, dl_device, copy, {})


def to_dlpack_versioned(tensor: Any, dl_device: Any = None, copy: bool | None = None, **more: Any) -> Any:
    """Replace `torch._C._to_dlpack_versioned`, which has `read_only` since PyTorch 2.14."""
    return _export(torch_private.to_dlpack_versioned, tensor, dl_device, copy, more)


def from_dlpack(capsule: Any) -> torch.Tensor:
    """Replace `torch._C._from_dlpack`: return a tensor that shares the memory of the exported one."""
    head = _head_of(capsule)
    if head is None or head.device_type != _CUDA:
        with torch_private.host_only():
            made: torch.Tensor = torch_private.from_dlpack(capsule)
        return made
    address = head.data or 0
    storage = next((storage for storage in list(_storages.values()) if _holds(storage, head.device_id, address)), None)
    if storage is None:
        raise cuda_errors.unsupported("torch.from_dlpack of another library's CUDA memory")
    exported: _Exported = getattr(storage, _EXPORTED)
    head.data, head.device_type, head.device_id = storage.data_ptr() + address - exported.block.address, _CPU, 0
    with torch_private.host_only():
        outline = torch_private.from_dlpack(capsule)
        offset = (address - exported.block.address) // outline.itemsize
        host = torch.empty(0, dtype=outline.dtype).set_(storage, offset, outline.size(), outline.stride())
    return on_device(host, exported.device, exported.block)


def _holds(storage: torch.UntypedStorage, gpu: int, address: int) -> bool:
    exported: _Exported = getattr(storage, _EXPORTED)
    first = exported.block.address
    return exported.device.index == gpu and first <= address <= first + max(storage.nbytes() - 1, 0)

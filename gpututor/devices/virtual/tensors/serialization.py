"""Saving, loading and copying virtual tensors, in CUDA's file format: the files load on a real GPU."""

from __future__ import annotations

import threading
from collections import OrderedDict
from copy import deepcopy
from multiprocessing.reduction import ForkingPickler
from typing import Any, cast

import torch

from gpututor.devices.virtual import cuda_errors, execution, torch_private
from gpututor.devices.virtual.machine import CPU, NOWHERE, active_machine, requested_device
from gpututor.devices.virtual.memory.allocator import Allocation
from gpututor.devices.virtual.tensors import tensor as bits
from gpututor.devices.virtual.tensors.moves import record_copy_of_bytes
from gpututor.devices.virtual.tensors.storage import (
    COPY,
    VirtualStorage,
    gpu_device,
    storage_on,
    typed,
    virtual_storage,
)
from gpututor.devices.virtual.tensors.tensor import VirtualTensor

PRIORITY = 5
"""Priority of the loader: lower numbers come first, and torch's own loader for CUDA has 20."""


class _Session(threading.local):
    """Number of unfinished calls of `torch.save` and `torch.load` in this thread."""

    depth = 0

    def __init__(self) -> None:
        self.outlines: dict[int, torch.UntypedStorage] = {}
        """Storages without values that replace the storages of the file in shape-only mode, by identity."""


_session = _Session()
_real_save, _real_load = torch.save, torch.load
_real_rebuild: Any = torch_private.rebuild_tensor


def _during(call: Any, args: Any, kwargs: Any) -> Any:
    _session.depth += 1
    try:
        return call(*args, **kwargs)
    finally:
        _session.depth -= 1
        if not _session.depth:
            _session.outlines.clear()


def save(*args: Any, **kwargs: Any) -> Any:
    return _during(_real_save, args, kwargs)


def load(*args: Any, **kwargs: Any) -> Any:
    return _during(_real_load, args, kwargs)


def _untyped(storage: Any) -> Any:
    return getattr(storage, "_untyped_storage", storage)


def location_of(storage: Any) -> str | None:
    """Return the location that torch.save writes for a storage, such as `cuda:1`; None for a CPU storage."""
    virtual = virtual_storage(storage)
    return None if virtual is None else str(virtual.device)


def place(storage: Any, location: str) -> Any:
    """Load a storage to `location` for torch.load; return None to leave it to the next loader."""
    if not location.startswith("cuda"):
        return None
    device = torch.device(location)
    machine = active_machine()
    index = machine.current.index if device.index is None else device.index
    if index >= len(machine.gpus):
        raise RuntimeError(
            f"Attempting to deserialize object on CUDA device {index} but torch.cuda.device_count() is "
            f"{len(machine.gpus)}. Please use torch.load with map_location to map your storages to an existing device."
        )
    untyped, gpu = _untyped(storage), machine.gpus[index]
    gpu.memory.of_thread.writer = None
    block = Allocation(gpu.memory, untyped.nbytes())
    record_copy_of_bytes(CPU, gpu.device, untyped.nbytes(), COPY)
    return VirtualStorage(untyped, block, gpu.device)


def storage_to_gpu(storage: Any, device: Any = None, non_blocking: bool = False) -> Any:
    """Replace a storage's `.cuda()`, which `map_location` functions also call."""
    target = requested_device("cuda" if device is None else device)
    if _session.depth:
        return place(storage, str(target))
    untyped = _untyped(storage)
    if untyped.device.type == "meta":
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    return storage_on(gpu_device(target), untyped, CPU, "UntypedStorage.cuda")


def storage_to(storage: Any, *, device: Any, non_blocking: bool = False) -> Any:
    if requested_device(device).type == "cuda":
        return storage_to_gpu(storage, device)
    return torch_private.move_storage(storage, device=device, non_blocking=non_blocking)


def rebuild_tensor(storage: Any, storage_offset: int, size: Any, stride: Any) -> torch.Tensor:
    """Replace `torch._utils._rebuild_tensor`: a tensor whose storage was placed on a GPU is virtual."""
    placed = virtual_storage(storage)
    if placed is None:
        return cast(torch.Tensor, _real_rebuild(storage, storage_offset, size, stride))
    untyped = placed._host
    with torch_private.host_only():
        if not active_machine().values:
            outline = torch.UntypedStorage(untyped.nbytes(), device=NOWHERE)
            untyped = _session.outlines.setdefault(untyped._cdata, outline)
        host = torch.empty((0,), dtype=storage.dtype, device=untyped.device).set_(untyped, storage_offset, size, stride)
    return VirtualTensor(host, placed.device, placed._block)


def reduce(tensor: VirtualTensor) -> tuple[Any, ...]:
    """Pickle a virtual tensor: by storage inside `torch.save`, elsewhere as a copy with its device."""
    if not active_machine().values:
        raise cuda_errors.NoValues("Saving or pickling a tensor")
    with torch_private.host_only():
        host = tensor._host.detach()
    is_parameter = bool(getattr(tensor, "_is_param", False))
    if not _session.depth:
        # A custom pickler gets a copy, as on CUDA.
        record_copy_of_bytes(tensor._device, CPU, host.nbytes, "pickle.dumps")
        with torch_private.host_only():
            host = _view_of(host.untyped_storage().clone(), host)
        return _rebuild_pickled, (host, str(tensor._device), tensor.requires_grad, is_parameter)
    active_machine().home(tensor._device)
    if is_parameter:
        plain = VirtualTensor(host, tensor._device, tensor._block)
        return torch_private.rebuild_parameter, (plain, tensor.requires_grad, OrderedDict())
    geometry = (host.storage_offset(), tuple(host.size()), host.stride())
    bits_set = {name: True for name, is_set in (("conj", host.is_conj()), ("neg", host.is_neg())) if is_set}
    arguments = (
        typed(tensor.untyped_storage(), host.dtype),
        *geometry,
        tensor.requires_grad,
        OrderedDict(),
        *([bits_set] if bits_set else []),
    )
    return torch_private.rebuild_tensor_v2, arguments


def _view_of(storage: torch.UntypedStorage, host: torch.Tensor) -> torch.Tensor:
    """Return a tensor like `host` in another storage."""
    view = torch.empty((0,), dtype=host.dtype, device=host.device)
    view.set_(storage, host.storage_offset(), host.size(), host.stride())
    torch_private.follow_bits(view, host)
    return view


def set_metadata(tensor: torch.Tensor, metadata: Any) -> None:
    """Replace the function that sets the conjugate and negative bits of a loaded tensor."""
    if type(tensor) is VirtualTensor:
        bits.respect()
        torch_private.set_metadata(tensor._host, metadata)
    torch_private.set_metadata(tensor, metadata)


def _rebuild_pickled(host: torch.Tensor, device: str, requires_grad: bool, is_parameter: bool) -> torch.Tensor:
    if host.is_conj() or host.is_neg():
        bits.respect()
    tensor = _from_other_process(host, torch.device(device).index, requires_grad, is_parameter)
    record_copy_of_bytes(CPU, tensor.device, host.numel() * host.element_size(), "pickle.loads")
    return tensor


def shallow_copy(tensor: VirtualTensor) -> VirtualTensor:
    """Implement `copy.copy`: a tensor that shares the memory, with the same attributes."""
    with torch_private.host_only():
        host = tensor._host.detach()
    copy = _like(tensor, VirtualTensor(host, tensor._device, tensor._block))
    for name, value in vars(tensor).items():
        vars(copy).setdefault(name, value)
    return copy


def _like(tensor: VirtualTensor, copy: VirtualTensor) -> VirtualTensor:
    """Return `copy` as a parameter if `tensor` is a parameter, with the same `requires_grad`."""
    if getattr(tensor, "_is_param", False):
        return cast(VirtualTensor, torch.nn.Parameter(copy, tensor.requires_grad))
    return cast(VirtualTensor, copy.requires_grad_(tensor.requires_grad))


def deep_copy(tensor: VirtualTensor, memo: dict[int, Any]) -> VirtualTensor:
    """Implement `copy.deepcopy`: tensors that share memory also share it in the copy."""
    if id(tensor) in memo:
        return cast(VirtualTensor, memo[id(tensor)])
    if not tensor.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment.  "
            "If you were attempting to deepcopy a module, this may be because of a torch.nn.utils.weight_norm usage, "
            "see https://github.com/pytorch/pytorch/pull/103001"
        )
    # torch.storage stores its copies under the same key.
    storages: dict[int, VirtualStorage] = cast(Any, memo).setdefault("torch", {})
    with torch_private.host_only():
        host = tensor._host
        untyped = host.untyped_storage()
        if untyped._cdata not in storages:
            machine = active_machine()
            gpu = machine.home(tensor._device)
            gpu.memory.check_fits(untyped.nbytes())
            gpu.memory.of_thread.writer = None
            block = Allocation(gpu.memory, untyped.nbytes())
            storages[untyped._cdata] = VirtualStorage(untyped.clone(), block, tensor._device)
            execution.kernel_of_bytes(machine, gpu, "aten::clone", 2 * untyped.nbytes())
        storage = storages[untyped._cdata]
        copied_host = _view_of(storage._host, host)
    copy = _like(tensor, VirtualTensor(copied_host, tensor._device, storage._block))
    if not getattr(tensor, "_is_param", False):
        vars(copy).update(
            {name: deepcopy(value, memo) for name, value in vars(tensor).items() if name not in vars(copy)}
        )
    memo[id(tensor)] = copy
    if tensor.grad is not None:
        copy.grad = tensor.grad.__deepcopy__(memo)
    return copy


def _to_other_process(tensor: VirtualTensor) -> tuple[Any, ...]:
    """Share a tensor with another process, as CUDA does by handle (torch/multiprocessing/reductions.py)."""
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support "
            "crossing process boundaries.  If you just want to transfer the data, call detach() on the tensor before "
            "serializing (e.g., putting it on the queue)."
        )
    if not active_machine().values:
        raise cuda_errors.NoValues("A tensor on its way to another process")
    with torch_private.host_only():
        host = tensor._host.detach()
    is_parameter = bool(getattr(tensor, "_is_param", False))
    return _from_other_process, (host, tensor._device.index, tensor.requires_grad, is_parameter)


def _from_other_process(host: torch.Tensor, index: int, requires_grad: bool, is_parameter: bool) -> torch.Tensor:
    tensor = VirtualTensor(host, active_machine().gpu(index).device)
    return torch.nn.Parameter(tensor, requires_grad) if is_parameter else tensor.requires_grad_(requires_grad)


# This registers only our own class, and does not change torch's.
ForkingPickler.register(VirtualTensor, _to_other_process)

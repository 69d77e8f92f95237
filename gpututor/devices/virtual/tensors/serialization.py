"""Saving, loading and copying virtual tensors, in CUDA's own file format: a file from here loads on a real GPU."""

from __future__ import annotations

import threading
from collections import OrderedDict
from multiprocessing.reduction import ForkingPickler
from typing import Any, cast

import torch

from gpututor.devices.virtual import cuda_errors, execution, torch_private
from gpututor.devices.virtual.machine import CPU, NOWHERE, active_machine, meant_device
from gpututor.devices.virtual.memory.allocator import Allocation
from gpututor.devices.virtual.tensors import tensor as bits
from gpututor.devices.virtual.tensors.moves import record_copy
from gpututor.devices.virtual.tensors.storage import VirtualStorage
from gpututor.devices.virtual.tensors.tensor import VirtualTensor

PRIORITY = 5
"""torch asks the loaders in order; its own for CUDA is at 20."""


class _Session(threading.local):
    """What one `torch.save` or `torch.load` of this thread knows about storages."""

    depth = 0

    def __init__(self) -> None:
        self.devices: dict[int, torch.device] = {}
        self.blocks: dict[int, Allocation] = {}
        self.outlines: dict[int, torch.UntypedStorage] = {}
        """Without values: what stands for a storage of the file, by its identity."""
        self.kept: list[Any] = []


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
            _session.devices.clear()
            _session.blocks.clear()
            _session.outlines.clear()
            _session.kept.clear()


def save(*args: Any, **kwargs: Any) -> Any:
    """Stands in for `torch.save`."""
    return _during(_real_save, args, kwargs)


def load(*args: Any, **kwargs: Any) -> Any:
    """Stands in for `torch.load`."""
    return _during(_real_load, args, kwargs)


def _untyped(storage: Any) -> Any:
    return getattr(storage, "_untyped_storage", storage)


def location_of(storage: Any) -> str | None:
    """What torch.save writes beside a storage: `cuda:1`."""
    if isinstance(storage, VirtualStorage):
        raise cuda_errors.unsupported("saving an UntypedStorage", "Save the tensor.")
    device = _session.devices.get(_untyped(storage)._cdata)
    return None if device is None else str(device)


def place(storage: Any, location: str) -> Any:
    """Called by torch.load for a storage that belongs on `location`; None leaves it to the next loader."""
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
    untyped = _untyped(storage)
    if untyped._cdata not in _session.devices:
        _session.devices[untyped._cdata] = machine.gpus[index].device
        machine.gpus[index].memory.of_thread.writer = None
        _session.blocks[untyped._cdata] = Allocation(machine.gpus[index].memory, untyped.nbytes())
        _session.kept.append(untyped)
        _record(CPU, machine.gpus[index].device, untyped.nbytes(), "torch.load")
    return storage


def _record(source: torch.device, target: torch.device, size_bytes: int, name: str) -> None:
    record_copy(source, target, size_bytes, torch.uint8, torch.uint8, non_blocking=False, host_pinned=False, name=name)


def storage_to_gpu(storage: Any, device: Any = None, non_blocking: bool = False) -> Any:
    """Stands in for a storage's `.cuda()`, which a `map_location` function calls while a file is read."""
    if not _session.depth:
        raise cuda_errors.unsupported("Storage.cuda()", "Move the tensor instead: tensor.cuda().")
    return place(storage, str(meant_device("cuda" if device is None else device)))


def storage_to(storage: Any, *, device: Any, non_blocking: bool = False) -> Any:
    """Stands in for a storage's `.to()`."""
    if meant_device(device).type == "cuda":
        return storage_to_gpu(storage, device)
    return torch_private.move_storage(storage, device=device, non_blocking=non_blocking)


def rebuild_tensor(storage: Any, storage_offset: int, size: Any, stride: Any) -> torch.Tensor:
    """Stands in for `torch._utils._rebuild_tensor`: a tensor whose storage was placed on a GPU is virtual."""
    untyped = _untyped(storage)
    device, block = _session.devices.get(untyped._cdata), _session.blocks.get(untyped._cdata)
    if device is None:
        return cast(torch.Tensor, _real_rebuild(storage, storage_offset, size, stride))
    with torch_private.host_only():
        if not active_machine().values:
            untyped = _session.outlines.setdefault(
                untyped._cdata, torch.UntypedStorage(untyped.nbytes(), device=NOWHERE)
            )
        host = torch.empty((0,), dtype=storage.dtype, device=untyped.device).set_(untyped, storage_offset, size, stride)
    return VirtualTensor(host, device, block)


def reduce(tensor: VirtualTensor) -> tuple[Any, ...]:
    """How a virtual tensor is pickled: by storage inside `torch.save`, whole and with its device elsewhere."""
    if not active_machine().values:
        raise cuda_errors.NoValues("Saving or pickling a tensor")
    with torch_private.host_only():
        host = tensor._host.detach()
    is_parameter = bool(getattr(tensor, "_is_param", False))
    if not _session.depth:
        # A pickler of the program's own sees what is given here: a copy, as on CUDA.
        _record(tensor._device, CPU, host.nbytes, "pickle.dumps")
        with torch_private.host_only():
            untyped = host.untyped_storage().clone()
            alias = host
            host = torch.empty((0,), dtype=alias.dtype).set_(
                untyped, alias.storage_offset(), alias.size(), alias.stride()
            )
            torch_private.follow_bits(host, alias)
        return _rebuild_pickled, (host, str(tensor._device), tensor.requires_grad, is_parameter)
    active_machine().home(tensor._device)
    untyped = host.untyped_storage()
    if untyped._cdata not in _session.devices:
        _session.devices[untyped._cdata] = tensor._device
        _session.kept.append(untyped)
        _record(tensor._device, CPU, untyped.nbytes(), "torch.save")
    if is_parameter:
        plain = VirtualTensor(host, tensor._device, tensor._block)
        return torch_private.rebuild_parameter, (plain, tensor.requires_grad, OrderedDict())
    storage = torch.storage.TypedStorage(wrap_storage=untyped, dtype=host.dtype, _internal=True)
    geometry = (host.storage_offset(), tuple(host.size()), host.stride())
    told = {name: True for name, is_so in (("conj", host.is_conj()), ("neg", host.is_neg())) if is_so}
    described = (storage, *geometry, tensor.requires_grad, OrderedDict(), *([told] if told else []))
    return torch_private.rebuild_tensor_v2, described


def set_metadata(tensor: torch.Tensor, metadata: Any) -> None:
    """Stands in for what gives a tensor from a file its conjugate and negative bits."""
    if type(tensor) is VirtualTensor:
        bits.expect()
        torch_private.set_metadata(tensor._host, metadata)
    torch_private.set_metadata(tensor, metadata)


def _rebuild_pickled(host: torch.Tensor, device: str, requires_grad: bool, is_parameter: bool) -> torch.Tensor:
    index = torch.device(device).index
    if host.is_conj() or host.is_neg():
        bits.expect()
    tensor = VirtualTensor(host, active_machine().gpu(index).device)
    _record(CPU, tensor._device, host.numel() * host.element_size(), "pickle.loads")
    return torch.nn.Parameter(tensor, requires_grad) if is_parameter else tensor.requires_grad_(requires_grad)


def deep_copy(tensor: VirtualTensor, memo: dict[int, Any]) -> VirtualTensor:
    """`copy.deepcopy`: tensors that shared memory share the copy's."""
    if id(tensor) in memo:
        return cast(VirtualTensor, memo[id(tensor)])
    if not tensor.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment.  "
            "If you were attempting to deepcopy a module, this may be because of a torch.nn.utils.weight_norm usage, "
            "see https://github.com/pytorch/pytorch/pull/103001"
        )
    key = id(tensor._block)
    with torch_private.host_only():
        host = tensor._host
        if key not in memo:
            untyped = host.untyped_storage()
            memory = active_machine().home(tensor._device).memory
            memory.expect(untyped.nbytes())
            memory.of_thread.writer = None
            memo[key] = (untyped.clone(), Allocation(memory, untyped.nbytes()))
            machine = active_machine()
            execution.kernel_of_bytes(machine, machine.home(tensor._device), "aten::clone", 2 * untyped.nbytes())
        storage, block = memo[key]
        copied_host = torch.empty((0,), dtype=host.dtype, device=host.device).set_(
            storage, host.storage_offset(), host.size(), host.stride()
        )
        torch_private.follow_bits(copied_host, host)
    copy = VirtualTensor(copied_host, tensor._device, block)
    if getattr(tensor, "_is_param", False):
        copy = cast(VirtualTensor, torch.nn.Parameter(copy, tensor.requires_grad))
    else:
        copy.requires_grad_(tensor.requires_grad)
    memo[id(tensor)] = copy
    if tensor.grad is not None:
        copy.grad = tensor.grad.__deepcopy__(memo)
    return copy


def _to_other_process(tensor: VirtualTensor) -> tuple[Any, ...]:
    """As CUDA shares by handle: the other process sees the same memory (torch/multiprocessing/reductions.py)."""
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


# Of our own class only: nothing of torch's is changed.
ForkingPickler.register(VirtualTensor, _to_other_process)

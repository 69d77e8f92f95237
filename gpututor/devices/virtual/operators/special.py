"""Operators with special rules: copies, views and changes of shape in place."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.devices.virtual import cuda_errors, execution, torch_private
from gpututor.devices.virtual.execution import copies, races
from gpututor.devices.virtual.machine import CPU, active_machine, python_device
from gpututor.devices.virtual.memory.allocator import Allocation
from gpututor.devices.virtual.operator_registry import Rule, operator_of
from gpututor.devices.virtual.operators import known_values, shape_only
from gpututor.devices.virtual.operators.fallbacks import refusing_rules
from gpututor.devices.virtual.operators.graph_replay import keep_copy, save_before_copy
from gpututor.devices.virtual.operators.operands import UnwrappedArguments, bytes_of, follow_host, resolved
from gpututor.devices.virtual.operators.sparse import copy_sparse
from gpututor.devices.virtual.tensors import tensor as bits
from gpututor.devices.virtual.tensors.moves import pin, pinned, record_copy, saturate
from gpututor.devices.virtual.tensors.sparse import follow_sparse
from gpututor.devices.virtual.tensors.storage import on_host, virtual_storage
from gpututor.devices.virtual.tensors.subclasses import alias
from gpututor.devices.virtual.tensors.tensor import VirtualTensor

aten = torch.ops.aten
_STAYS = "Leave out the copy to the host, or run with values, on smaller sizes."


def _device_and_host(tensor: torch.Tensor) -> tuple[torch.device, torch.Tensor]:
    if type(tensor) is VirtualTensor:
        return tensor._device, tensor._host
    return tensor.device, torch_private.with_memory(tensor)


def _known(func: Any, host: torch.Tensor) -> torch.Tensor:
    """Return the values of a constant; raise `NoValues` for anything else."""
    values = known_values.values_of(host)
    if values is None:
        raise cuda_errors.NoValues(func._schema.name, _STAYS)
    return values


def _to_copy(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    source, host = _device_and_host(args[0])
    wanted = kwargs.get("device")
    target = source if wanted is None else python_device(wanted)
    non_blocking = bool(kwargs.get("non_blocking", False))
    dtype = kwargs.get("dtype") or host.dtype
    options = {name: value for name, value in kwargs.items() if name not in ("device", "non_blocking", "pin_memory")}
    if target.type not in ("cuda", "cpu") or source.type not in ("cuda", "cpu"):
        if source.type == "meta" and target.type != "meta":
            # Raised here because C++ would look for a CUDA kernel. `Module.to` matches this message.
            raise NotImplementedError("Cannot copy out of meta tensor; no data!")
        return func(host, **options, device=target)
    if host.layout is not torch.strided:
        return copy_sparse(func, source, host, target, {**options, "non_blocking": non_blocking})
    machine = active_machine()
    if target.type == "cuda":
        machine.gpus[target.index].memory.check_fits(host.numel() * dtype.itemsize)
    elif host.is_meta:
        host = _known(func, host)
    out = func(host, **options, device=CPU if target.type == "cpu" else machine.host_device)
    if out.is_meta:
        known_values.remember_copy(out, host)
    saturate(out, host, (source, target), non_blocking)
    if target.type == "cpu" and non_blocking:
        # CUDA copies into page-locked memory here, so the host does not wait.
        pin(out)
    if active_machine().capture is not None:
        keep_copy(active_machine(), (source, target), out, host, non_blocking, is_new=True)
    access = record_copy(
        source,
        target,
        host.numel(),
        host.dtype,
        dtype,
        non_blocking=non_blocking,
        host_pinned=pinned(out if target.type == "cpu" else host),
        name="aten::_to_copy",
    )
    moved_to = out if target.type == "cpu" else None
    if source.type == "cpu" and target.type == "cuda":
        copies.record_upload(active_machine(), host, target.index, access)
    races.record_copy(active_machine(), access, args[0], moved_to, asynchronous=non_blocking)
    if target.type == "cpu":
        return out
    result = VirtualTensor(out, target)
    if machine.capture is not None:
        races.record_captured_result(machine, machine.gpus[target.index], result)
    return result


_EXACT = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}
"""The dtype that C++ gives to a Python number."""


def _copy_in_place(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if not isinstance(args[1], torch.Tensor):
        with torch_private.host_only():
            args = (args[0], torch.scalar_tensor(args[1], dtype=_EXACT[type(args[1])]), *args[2:])
    target, target_host = _device_and_host(args[0])
    source, source_host = _device_and_host(args[1])
    non_blocking = bool(args[2] if len(args) > 2 else kwargs.get("non_blocking", False))
    if source_host.is_meta and target.type == "cpu":
        source_host = _known(func, source_host)
    if active_machine().capture is not None:
        save_before_copy(active_machine(), (source, target), target_host)
    func(target_host, source_host)
    saturate(target_host, source_host, (source, target), non_blocking)
    if target_host.is_meta:
        known_values.follow_copy(target_host, source_host)
    if active_machine().capture is not None:
        keep_copy(active_machine(), (source, target), target_host, source_host, non_blocking)
    if target_host.layout is not torch.strided:
        if type(args[0]) is VirtualTensor:
            follow_sparse(args[0])
        return args[0]
    access = record_copy(
        source,
        target,
        target_host.numel(),
        source_host.dtype,
        target_host.dtype,
        non_blocking=non_blocking,
        host_pinned=pinned(target_host if target.type == "cpu" else source_host),
        name="aten::copy_",
    )
    races.record_copy(active_machine(), access, args[1], args[0], asynchronous=non_blocking)
    return args[0]


def _scalar(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    tensor = args[0]
    execution.copy_to_host(active_machine(), tensor._device, tensor.element_size(), "aten::_local_scalar_dense")
    if not active_machine().values:
        return shape_only.known_number(tensor)
    return func(resolved(tensor._host))


def _reshape_in_place(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Change the sizes and strides of the CPU tensor, then of the virtual tensor."""
    op = operator_of(func)
    inputs = UnwrappedArguments()
    tensor = args[0]
    size_before = tensor._host.untyped_storage().nbytes()
    if func is aten.resize_.default:
        count = 1
        for length in args[1]:
            count *= length
        memory = active_machine().gpus[tensor._device.index].memory
        memory.of_thread.writer = None
        size = count * tensor.element_size()
        if size > size_before:
            memory.check_fits(size)
    func(*[inputs.unwrap(value, op, position) for position, value in enumerate(args)], **kwargs)
    follow_host(tensor)
    return tensor


def _set_source(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run `a.set_(b)`: `a` becomes a view of the storage of `b`."""
    target, source = args[0], args[1]
    if type(target) is not VirtualTensor or type(source) is not VirtualTensor:
        raise cuda_errors.unsupported("Tensor.set_() between devices")
    func(target._host, source._host, *args[2:], **kwargs)
    target._block = source._block
    follow_host(target)
    return target


def _pack_padded(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Pack values on the GPU; lengths come from the host and batch sizes stay there (PackedSequence.cpp)."""
    source, lengths, *rest = args
    if type(lengths) is VirtualTensor:
        kind = lengths._host.type().removeprefix("torch.").removesuffix("Tensor")
        raise RuntimeError(
            "'lengths' argument should be a 1D CPU int64 tensor, but got "
            f"{lengths.dim()}D {lengths._device} {kind} tensor"
        )
    values, batch_sizes = func(resolved(source._host), lengths, *rest, **kwargs)
    machine = active_machine()
    execution.kernel_of_bytes(machine, machine.home(source._device), func._schema.name, 2 * bytes_of(values))
    return VirtualTensor(values, source._device), batch_sizes


def _lazy_view(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return a view whose values are conjugated or negated when they are read."""
    tensor = args[0]
    if tensor._layout is not torch.strided:
        raise cuda_errors.unsupported(f"torch.{func.overloadpacket.__name__} of a sparse tensor")
    bits.respect()
    return VirtualTensor(func(tensor._host), tensor._device, tensor._block)


def _between_tensors(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Read both ends on the host, and make the result on `device` (RangeFactories.cpp)."""
    from gpututor.devices.virtual.operators.dispatch import DeviceMode, is_virtual_device

    device = kwargs.get("device")
    if not active_machine().values and device is not None and is_virtual_device(device):
        args = tuple(_end(value) if type(value) is VirtualTensor else value for value in args)
    with DeviceMode():
        return operator_of(func).made_of_others(*args, **kwargs)


def _end(tensor: VirtualTensor) -> torch.Tensor:
    """Return zero in place of the end of a range: the result has no values either."""
    execution.copy_to_host(active_machine(), tensor._device, tensor.element_size(), "aten::_local_scalar_dense")
    return torch.zeros(tensor.shape, dtype=tensor.dtype, device="cpu")


_ENDS = ("Tensor_Tensor", "Tensor_Scalar", "Scalar_Tensor")
_RESHAPING = (
    *(aten.t_.default, aten.squeeze_.default, aten.squeeze_.dim, aten.squeeze_.dims, aten.unsqueeze_.default),
    *(aten.transpose_.default, aten.as_strided_.default, aten.swapaxes_.default, aten.swapdims_.default),
    *(aten.resize_.default, aten.resize_as_.default),
)


def special_rules() -> dict[Any, Rule]:
    return {
        aten._to_copy.default: _to_copy,
        aten.alias.default: alias,
        aten.copy_.default: _copy_in_place,
        aten._local_scalar_dense.default: _scalar,
        aten.is_same_size.default: lambda func, args, kwargs: func(*[_device_and_host(value)[1] for value in args]),
        aten._conj.default: _lazy_view,
        aten._neg_view.default: _lazy_view,
        aten._pack_padded_sequence.default: _pack_padded,
        aten.set_.source_Tensor: _set_source,
        **{getattr(packet, ends): _between_tensors for packet in (aten.linspace, aten.logspace) for ends in _ENDS},
        **dict.fromkeys(_RESHAPING, _reshape_in_place),
        **refusing_rules(),
    }


_real_set: Any = torch.Tensor.set_


def set_on_host(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Run `Tensor.set_` of a CPU tensor. Raises CUDA's error for a virtual tensor's storage."""
    source = args[0] if args else kwargs.get("source")
    if (storage := virtual_storage(source)) is not None:
        raise cuda_errors.wrong_storage(self.device, storage.device)
    return _real_set(self, *args, **kwargs)


def set_source(
    target: VirtualTensor, source: Any = None, storage_offset: int | None = None, size: Any = None, stride: Any = None
) -> VirtualTensor:
    """Run `target.set_(...)`. Raises CUDA's error for a source on another device."""
    geometry = [value for value in (storage_offset, size, stride) if value is not None]
    storage = virtual_storage(source)
    untyped: Any = source._untyped_storage if isinstance(source, torch.TypedStorage) else source
    source_device: torch.device = target.device if source is None else untyped.device
    if source_device != target.device:
        raise cuda_errors.wrong_storage(target.device, source_device)
    if storage is not None and storage.is_slice:
        raise cuda_errors.unsupported("Tensor.set_() with a slice of a storage", "Slice the tensor.")
    memory = active_machine().home(target._device).memory
    with torch_private.host_only():
        if source is None:
            empty: Any = target._host.set_
            empty()
            target._block = Allocation(memory, 0)
        else:
            target._host.set_(source._host if storage is None else on_host(source), *geometry)
            target._block = untyped._block
    follow_host(target)
    return target

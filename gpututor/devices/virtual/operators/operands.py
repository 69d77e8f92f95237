"""Operands of an operator: unwraps arguments, checks their devices, wraps results."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.devices.virtual import cuda_errors, execution, torch_private
from gpututor.devices.virtual.machine import CPU, active_machine, is_on
from gpututor.devices.virtual.operator_facts import device_checks
from gpututor.devices.virtual.operator_registry import Operator
from gpututor.devices.virtual.tensors import tensor as bits
from gpututor.devices.virtual.tensors.sparse import blocks_for, known_blocks, sparse_on_device
from gpututor.devices.virtual.tensors.tensor import VirtualTensor, on_device

Tensor = torch.Tensor


_NUMBERS = frozenset({int, float, bool})
_LEAVES = frozenset({int, float, bool, type(None), str, torch.dtype, torch.device, complex, torch.layout})


def bytes_of(value: Any) -> int:
    """Return the bytes of the tensors in `value`, lists within lists included."""
    if isinstance(value, Tensor):
        return value.nbytes if value.layout is torch.strided else 0
    if type(value) is tuple or type(value) is list:
        return sum(bytes_of(part) for part in value)
    return 0


class UnwrappedArguments:
    """Unwraps the arguments of an operator, and describes them."""

    __slots__ = ("device", "lazy", "mixed", "size_bytes", "sparse", "wrappers")

    def __init__(self) -> None:
        self.device: torch.device | None = None
        self.lazy = False
        """True if any argument has a conjugate or negative bit."""
        self.mixed = False
        self.size_bytes = 0
        self.sparse = False
        self.wrappers: list[VirtualTensor] = []

    def unwrap_all(self, args: Any, op: Operator) -> list[Any]:
        """Return the positional arguments with CPU tensors in place of virtual ones."""
        hosts = list(args)
        for position, value in enumerate(args):
            kind = type(value)
            if kind is VirtualTensor:
                hosts[position] = self._enter(value)
            elif kind not in _LEAVES:
                hosts[position] = self.unwrap(value, op, position)
        return hosts

    def _enter(self, value: VirtualTensor) -> Tensor:
        device = value._device
        if self.device is not device:
            if self.device is None:
                self.device = device
            else:
                self.mixed = True
        self.wrappers.append(value)
        host = value._host
        if host.layout is torch.strided:
            self.size_bytes += host.nbytes
            if bits.seen and (host.is_conj() or host.is_neg()):
                self.lazy = True
        else:
            self.sparse = True
        return host

    def unwrap(self, value: Any, op: Operator, where: int | str) -> Any:
        """Return `value` with CPU tensors in place of virtual ones."""
        kind = type(value)
        if kind is VirtualTensor:
            return self._enter(value)
        if kind is list or kind is tuple:
            if not value or type(value[0]) in _NUMBERS:
                return value
            return [
                self._enter(part) if type(part) is VirtualTensor else self.unwrap(part, op, where) for part in value
            ]
        if not isinstance(value, Tensor):
            return value
        if value.dim() or op.facts.checks_scalars or where in op.written_places:
            if where not in op.host_places:
                self.mixed = True
            elif self.device is not None and is_on():
                # CUDA moves index tensors to the device of the indexed tensor.
                execution.copy(active_machine(), CPU, self.device, bytes_of(value), op.name)
        return torch_private.with_memory(value)


def resolved(host: Tensor) -> Tensor:
    """Resolve conjugate and negative bits, which some CPU kernels set on new tensors, but CUDA's do not."""
    if not host.dtype.is_complex and not host.is_neg():
        return host
    if host.is_conj():
        host = host.resolve_conj()
    return host.resolve_neg() if host.is_neg() else host


def fresh(out: Any, device: torch.device) -> Any:
    """Return new tensors, each with a block of its own, on `device`."""
    if type(out) is Tensor:
        return on_device(resolved(out), device)
    return [on_device(resolved(host), device) for host in out]


def wrap(out: Any, wrappers: list[VirtualTensor], device: torch.device) -> Any:
    """Return the CPU's results as tensors on `device`. An argument is returned itself, a view shares its block."""
    if isinstance(out, Tensor):
        if type(out) is VirtualTensor:
            return out
        if out.layout is not torch.strided:
            return sparse_on_device(VirtualTensor, out, device, blocks_for(out, device, known_blocks(wrappers)))
        storage = torch_private.storage_id(out)
        block = None
        for wrapper in wrappers:
            if wrapper._host is out:
                return wrapper
            if torch_private.storage_id(wrapper._host) == storage:
                block = wrapper._block
        return on_device(resolved(out) if block is None else out, device, block)
    if type(out) is list or type(out) is tuple:
        return type(out)([wrap(part, wrappers, device) for part in out])
    return out


def follow_host(wrapper: VirtualTensor) -> None:
    """Update the wrapper after its values were resized in place; its block may grow."""
    host = wrapper._host
    wrapper._block.grow(host.untyped_storage().nbytes())
    if wrapper.size() != host.size() or wrapper.stride() != host.stride():
        torch_private.set_data(wrapper, VirtualTensor(host, wrapper._device, wrapper._block))


def is_on_other_device(index: Any, device: torch.device) -> bool:
    """Return True for an index tensor on a GPU other than `device`; CPU index tensors are allowed anywhere."""
    return isinstance(index, torch.Tensor) and index.is_cuda and index.device != device


def has_strays(args: tuple[Any, ...]) -> bool:
    """Return True if an index or the single value of an `index_put` is on a GPU other than the target's."""
    target, indices, value = args[:3]
    device = target.device
    return any(is_on_other_device(index, device) for index in indices) or (
        value.dim() == 0 and is_on_other_device(value, device)
    )


def _tensors(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, torch.Tensor]]:
    tensors = []
    # A generated wrapper checks its outputs before its inputs (torchgen/dest/register_dispatch_key.py).
    outs = [name for name in op.out_names if name in kwargs]
    others = [name for name in kwargs if name not in outs]
    places: list[int | str] = [*outs, *range(len(args)), *others]
    for where in places:
        value = kwargs[where] if isinstance(where, str) else args[where]
        if where in op.host_places:
            continue
        scalars_count = op.facts.checks_scalars or where in op.written_places
        for part in value if isinstance(value, list | tuple) else [value]:
            if isinstance(part, torch.Tensor) and (part.dim() or part.is_cuda or scalars_count):
                tensors.append((op.argument(where), part))
    return tensors


def _wrapper_name(op: Operator, kernel: str, tensors: list[tuple[str, torch.Tensor]], of_operator: bool) -> str | None:
    """Return the generated name of the C++ function that compares devices, or None.

    The function of a structured kernel ends with the name of the overload; other functions begin with it
    (torchgen/dest/register_dispatch_key.py).
    """
    overload = op.func._overloadname if of_operator else ""
    if overload == "default":
        overload = ""
    ending = "_out" if of_operator and op.out_names else ""
    key = "CUDA" if all(tensor.layout is torch.strided for _, tensor in tensors) else "SparseCUDA"
    structured = f"wrapper_{key}_{kernel}{ending}" + (f"_{overload}" if overload else "")
    return next(
        (name for name in (structured, f"wrapper_{key}_{overload}_{kernel}{ending}") if name in device_checks()), None
    )


def _is_pointwise(op: Operator) -> bool:
    # `equal` is tagged pointwise, and has a kernel of its own; overloads with out= have lost the tag.
    packet = op.func.overloadpacket
    if packet.__name__ == "equal":
        return False
    return any(torch.Tag.pointwise in getattr(packet, name).tags for name in packet.overloads())


def device_mismatch_error(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> RuntimeError | None:
    """Return the error for an operator whose tensors are on more than one device.

    Returns None for an operator implemented with other operators, which check devices themselves.
    """
    tensors = _tensors(op, args, kwargs)
    short = op.func.overloadpacket.__name__
    if short in ("convolution", "_convolution", "convolution_overrideable"):
        by_name = dict(tensors)
        image, weight = by_name["input"], by_name["weight"]
        if image.device.type != weight.device.type:
            if not image.is_cuda and torch_private.is_slow_convolution(image, weight, args[2:]):
                return _on_another_device("weight", weight.device, image.device, "wrapper_CUDA___slow_conv2d_forward")
            ending = " or input should be a MKLDNN tensor and weight is a dense tensor"
            types = f"Input type ({image.type()}) and weight type ({weight.type()})"
            return RuntimeError(f"{types} should be the same" + ("" if image.is_cuda else ending))
    if op.reads_at_indices:
        # check_indices_on_cpu_or_selfdevice in TensorAdvancedIndexing.cpp.
        return RuntimeError(
            f"indices should be either on cpu or on the same device as the indexed tensor ({args[0].device})"
        )
    if op.puts_at_indices and args[0].is_cuda and (args[3] if len(args) > 3 else kwargs.get("accumulate", False)):
        return RuntimeError(f"expected device {args[0].device} but got device {args[2].device} for value tensor")
    kernel, renamed = op.facts.runs_as or short, op.facts.arguments
    if renamed:
        tensors = sorted(
            [(renamed[name], tensor) for name, tensor in tensors if name in renamed],
            key=lambda pair: list(renamed.values()).index(pair[0]),
        )
    if short in ("add", "add_") and any(tensor.layout is torch.sparse_coo for _, tensor in tensors):
        # add_out_sparse_cuda in aten/src/ATen/native/sparse/cuda/SparseCUDATensorMath.cu.
        host = next((name for name, tensor in tensors if tensor.device.type == "cpu"), None)
        if host is not None:
            return RuntimeError(f"add: expected '{host}' to be a CUDA tensor, but got a CPU tensor")
    if _is_pointwise(op) or op.facts.unnamed_check or short.startswith("_foreach"):
        return _two_devices(tensors)
    wrapper = _wrapper_name(op, kernel, tensors, kernel == short)
    if wrapper is None:
        return None if op.made_of_others is not None else _two_devices(tensors)
    first = tensors[0][1].device
    name, other = next((name, tensor.device) for name, tensor in tensors if tensor.device != first)
    return _on_another_device(name, other, first, wrapper)


def _on_another_device(name: str, device: torch.device, others: torch.device, wrapper: str) -> RuntimeError:
    return RuntimeError(
        f"Expected all tensors to be on the same device, but got {name} is on {device}, different from other tensors "
        f"on {others} (when checking argument in method {wrapper})"
    )


def _two_devices(tensors: list[tuple[str, torch.Tensor]]) -> RuntimeError:
    """Return TensorIterator's error. Its common device is the first GPU among the tensors, even after a CPU tensor."""
    devices = list(dict.fromkeys(tensor.device for _, tensor in tensors))
    devices.sort(key=lambda device: device.type == "cpu")
    if len(devices) == 1:
        return cuda_errors.real_tensor(devices[0])
    return RuntimeError(
        f"Expected all tensors to be on the same device, but found at least two devices, {devices[0]} and {devices[1]}!"
    )

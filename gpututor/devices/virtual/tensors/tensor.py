"""The tensor of the virtual GPU: its conjugate and negative bits, its gradient and its text.

As on CUDA, the virtual tensor has the bits, so C++ code above the modes resolves them. Its CPU tensor has them too,
because a view shares memory with its base. Few programs create such views, so bits are ignored until the first view.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, cast

import torch

from gpututor.devices.virtual import cuda_errors, execution, torch_private
from gpututor.devices.virtual.execution import waits
from gpututor.devices.virtual.machine import META, active_machine, is_on, python_device
from gpututor.devices.virtual.memory.allocator import Allocation
from gpututor.devices.virtual.tensors.sparse import deep_copy_sparse, parts_of, sparse_on_device, sparse_text
from gpututor.devices.virtual.tensors.storage import VirtualStorage, typed

seen = False
"""True once a virtual tensor may have a conjugate or negative bit; never reset."""


def respect() -> None:
    """Make operators respect conjugate and negative bits from now on."""
    global seen
    seen = True


_make_wrapper, _CUDA_AUTOCAST = torch_private.make_wrapper, torch_private.CUDA_AUTOCAST
_in_inference_mode, _STRIDED = torch.is_inference_mode_enabled, torch.strided


def _wrapper(host: torch.Tensor, device: torch.device, kind: Any) -> Any:
    # Unneeded optional arguments are omitted: each takes a tenth of the call.
    size, stride, offset = host.size(), host.stride(), host.storage_offset()
    dtype, meta, keys = host.dtype, META[device.index], _CUDA_AUTOCAST
    if offset:
        return _make_wrapper(kind, size, stride, offset, dtype=dtype, device=meta, _extra_dispatch_keys=keys)
    return _make_wrapper(kind, size, stride, dtype=dtype, device=meta, _extra_dispatch_keys=keys)


def _unsupported_kind(host: torch.Tensor) -> str:
    if host.is_nested:
        return "nested tensors (torch.nested) on a device"
    return "quantized tensors" if host.is_quantized else f"tensors of layout {host.layout}"


class Hooks:
    """Functions of higher layers that methods of a tensor call; `session` sets them as it is imported.

    A class without instances, because a worker's integrity checks cover the functions of classes.
    """

    run: Callable[..., Any]
    set_data_across_devices: Callable[..., None]
    parse_tensor_type: Callable[[Any], tuple[str | None, torch.dtype] | None]
    text_of: Callable[[Any], str]
    shallow_copy: Callable[[Any], Any]
    deep_copy: Callable[..., Any]
    reduce: Callable[[Any], Any]
    set_source: Callable[..., Any]
    as_subclass: Callable[[Any, Any], Any]
    thread_modes: Callable[[], AbstractContextManager[Any]]
    """Context manager that enters the modes of a thread."""


class _TensorType(type(torch.Tensor)):  # type: ignore[misc]
    """Metaclass of `VirtualTensor`: as on CUDA, every tensor is an instance of `type(x)` of a device tensor `x`."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, torch.Tensor) if cls is VirtualTensor else type.__instancecheck__(cls, instance)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, torch.Tensor) if cls is VirtualTensor else type.__subclasscheck__(cls, other)


class VirtualTensor(torch.Tensor, metaclass=_TensorType):
    """Tensor with values in `_host`, the device that Python sees in `_device` (`cuda:0`), and memory in `_block`."""

    _host: torch.Tensor
    _device: torch.device
    _block: Allocation
    _layout: torch.layout = torch.strided

    __torch_function__ = torch_private.plain_function

    @staticmethod
    def __new__(cls: Any, host: torch.Tensor, device: torch.device, block: Allocation | None = None) -> VirtualTensor:
        return on_device(host, device, block)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: `torch.Tensor(x)` calls this too, with its own arguments."""

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        # Reached only without a mode, such as in a thread that C++ started.
        return Hooks.run(func, args, kwargs or {})

    # Attributes for which C++ has wrong values.
    device = property(lambda self: self._device)
    is_cuda = property(lambda self: True)
    is_cpu = property(lambda self: False)
    is_meta = property(lambda self: False)

    def _set_data(self, value: Any) -> None:
        if not isinstance(value, torch.Tensor):
            torch_private.set_data(self, value)  # raises torch's error
            return
        if type(value) is not VirtualTensor or value.is_inference() is not self.is_inference():
            # C++ rejects incompatible kinds of tensors; tensors on one device are compatible.
            Hooks.set_data_across_devices(self, value)
            return
        torch_private.set_data(self, VirtualTensor(value._host, value._device, value._block))
        self._host, self._device, self._block = value._host, value._device, value._block

    data = property(lambda self: torch_private.get_data(self), _set_data)

    def as_subclass(self, cls: Any) -> Any:
        if cls is torch.Tensor:
            return self.view_as(self)
        return Hooks.as_subclass(self, cls)

    def get_device(self) -> int:
        return int(self._device.index)

    def type(self, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
        if dtype is None:
            return self._host.type().replace("torch.", "torch.cuda.", 1)
        tensor_type = Hooks.parse_tensor_type(dtype)
        if tensor_type is None:
            raise ValueError(f"invalid type: {str(dtype)!r}")
        kind, dtype = tensor_type
        return self.to(device=self._device if kind == "cuda" else kind, dtype=dtype, non_blocking=non_blocking)

    def numpy(self, *, force: bool = False) -> Any:
        if force:
            return self.detach().cpu().numpy(force=True)
        raise cuda_errors.no_numpy(self._device)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise cuda_errors.no_numpy(self._device)

    def tolist(self) -> Any:
        active_machine().home(self._device)
        record_copy_to_host(self, "aten::_to_copy")
        if self._host.is_meta:
            raise cuda_errors.NoValues("Tensor.tolist()")
        with torch_private.host_only():
            return self._host.tolist()

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        record_copy_to_host(self, "print")
        return Hooks.text_of(self)

    def __format__(self, spec: str) -> str:
        if self.dim() == 0 and type(self) is VirtualTensor and (spec or not self._host.is_meta):
            return format(self.item(), spec)
        return object.__format__(self, spec)

    def __copy__(self) -> Any:
        if type(self) is not VirtualTensor or self._layout is not torch.strided:
            raise cuda_errors.unsupported("copy.copy() of this tensor", "Call its clone() or detach().")
        return Hooks.shallow_copy(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if self._layout is not torch.strided:
            return deep_copy_sparse(self, memo)
        return Hooks.deep_copy(self, memo)

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self._layout is not torch.strided:
            raise cuda_errors.unsupported("pickling a sparse tensor", "Save its indices() and values().")
        return Hooks.reduce(self)

    def is_pinned(self, device: Any = None) -> bool:
        return False

    def pin_memory(self, device: Any = None) -> torch.Tensor:
        raise cuda_errors.cannot_pin(self.type())

    def is_shared(self) -> bool:
        return True

    def share_memory_(self) -> VirtualTensor:
        return self

    def record_stream(self, stream: Any) -> None:
        """Keep the memory after the tensor is freed, until the stream has finished its current work."""
        self._block.recorded = {*(self._block.recorded or ()), waits.number_of(stream.stream_id)}

    def data_ptr(self) -> int:
        """Return the address in the GPU's memory, which the host cannot read."""
        active_machine().home(self._device)
        address = self._block.address
        return address + int(self.storage_offset()) * self.element_size() if address else 0

    # torch's own method bypasses function modes.
    def set_(self, *args: Any, **kwargs: Any) -> VirtualTensor:
        return cast(VirtualTensor, Hooks.set_source(self, *args, **kwargs))

    def untyped_storage(self) -> Any:
        active_machine().home(self._device)
        return VirtualStorage(self._host.untyped_storage(), self._block, self._device)

    def storage(self) -> Any:
        torch_private.warn_typed_storage(stacklevel=2)
        return self._typed_storage()

    def storage_type(self) -> Any:
        torch_private.warn_typed_storage(stacklevel=2)
        return self._typed_storage()._get_legacy_storage_class()

    def _typed_storage(self) -> Any:
        return typed(self.untyped_storage(), self.dtype)

    @property
    def __cuda_array_interface__(self) -> Any:
        # The memory is on the host: a library must not read it as GPU memory.
        raise AttributeError("a virtual GPU's tensor has no CUDA memory to share")

    def __dlpack__(self, *, stream: Any = -1, **options: Any) -> Any:
        # torch would look for a consumer's stream among those of other libraries.
        if type(stream) is int and stream == torch.cuda.current_stream().cuda_stream:
            stream = -1
        return super().__dlpack__(stream=stream, **options)


def on_device(
    host: torch.Tensor, device: torch.device, block: Allocation | None = None, kind: Any = VirtualTensor
) -> VirtualTensor:
    """Return a virtual tensor of the class `kind` with the values of `host`; without a block, allocate its memory.

    Raise CUDA's out-of-memory error, and `NotImplementedError` for unsupported kinds of tensors.
    """
    if host.layout is not _STRIDED or host.is_quantized or host.is_nested:
        if host.layout is torch.sparse_coo:
            return cast(VirtualTensor, sparse_on_device(VirtualTensor, host, device, block))
        raise cuda_errors.unsupported(_unsupported_kind(host))
    if block is None:
        block = Allocation(active_machine().gpus[device.index].memory, host.untyped_storage().nbytes())
    wrapper: VirtualTensor
    if _in_inference_mode() and not host.is_inference():
        # In inference mode, a view of a normal tensor is still a normal tensor.
        with torch.inference_mode(False):
            wrapper = _wrapper(host, device, kind)
    else:
        wrapper = _wrapper(host, device, kind)
    wrapper._host = host
    wrapper._device = device
    wrapper._block = block
    if seen:
        torch_private.follow_bits(wrapper, host)
    return wrapper


# For `print(type(x))`, and for torch's error messages, which name the class.
VirtualTensor.__module__ = "torch"
VirtualTensor.__name__ = VirtualTensor.__qualname__ = "Tensor"


def is_virtual(tensor: object) -> bool:
    return type(tensor) is VirtualTensor


def host_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """Return a virtual tensor's CPU tensor, or a CPU tensor itself: detached, on the same memory, not recorded."""
    with torch_private.host_only():
        return (tensor._host if type(tensor) is VirtualTensor else tensor).detach()


def storage_key(tensor: torch.Tensor) -> int:
    """Return a key that is equal for two live tensors if they share memory."""
    host = tensor._host if type(tensor) is VirtualTensor else tensor
    return torch_private.storage_id(host if host.layout is torch.strided else parts_of(host)[-1])


def size_bytes(tensor: torch.Tensor) -> int:
    """Return the bytes of a tensor's elements, not of its storage."""
    return tensor.numel() * tensor.element_size()


def record_copy_to_host(tensor: VirtualTensor, name: str) -> None:
    """Record a blocking copy of the whole tensor to the host: one transfer and one wait."""
    if not is_on() or not tensor.numel():
        return
    machine = active_machine()
    machine.check()
    if id(tensor._device) in machine.by_device:
        execution.copy_to_host(machine, tensor._device, size_bytes(tensor), name)


def text_of(tensor: VirtualTensor) -> str:
    """Format as `tensor([1., 2.], device='cuda:0', grad_fn=<MulBackward0>)`, with a line above for a parameter."""
    node = tensor.grad_fn
    with torch_private.host_only():
        host = tensor._host.detach()
        prefix = "tensor(" if type(tensor) is VirtualTensor else f"{type(tensor).__name__}("
        suffixes = [f"device='{tensor._device}'"]
        complex_default = torch.complex128 if torch.get_default_dtype() is torch.float64 else torch.complex64
        default_dtype = host.dtype in (torch.get_default_dtype(), complex_default, torch.int64, torch.bool)
        if host.is_meta:
            suffixes += [f"size={tuple(host.shape)}", *([] if default_dtype else [f"dtype={host.dtype}"]), "no values"]
            values = "..."
        elif host.layout is not torch.strided:
            values, suffixes = sparse_text(host, tensor._device)
        elif host.numel() == 0:
            if host.dim() != 1:
                suffixes.append(f"size={tuple(host.shape)}")
            if host.dtype is not torch.get_default_dtype():
                suffixes.append(f"dtype={host.dtype}")
            values = "[]"
        else:
            if not default_dtype:
                suffixes.append(f"dtype={host.dtype}")
            values = torch_private.format_values(host, len(prefix))
        if node is not None:
            name = type(node).__name__
            if name == "CppFunction":
                name = node.name().rsplit("::", maxsplit=1)[-1]
            suffixes.append(f"grad_fn=<{name}>")
        elif tensor.requires_grad:
            suffixes.append("requires_grad=True")
        text = str(torch_private.join_suffixes(prefix + values, suffixes, len(prefix), force_newline=tensor.is_sparse))
    return f"Parameter containing:\n{text}" if getattr(tensor, "_is_param", False) else text


Tensor = torch.Tensor

_real_custom_backward: Any = torch.autograd.function.BackwardCFunction.apply


def device_from_cpp(device: torch.device) -> torch.device:
    """Return Python's device for a device in C++'s notation, which tensors wrapped by torch.func have."""
    return python_device(device) if device.type == "meta" and device.index is not None else device


def check_gradients(roots: Any, gradients: Any) -> None:
    """Check the devices of the gradients that start a backward pass; raise `RuntimeError`."""
    roots = [roots] if isinstance(roots, Tensor) else list(roots)
    gradients = [gradients] if isinstance(gradients, Tensor) or gradients is None else list(gradients)
    for position, (root, gradient) in enumerate(zip(roots, gradients, strict=False)):
        if isinstance(gradient, Tensor) and isinstance(root, Tensor):
            expected, got = device_from_cpp(root.device), device_from_cpp(gradient.device)
            if expected != got:
                raise cuda_errors.invalid_gradient("", position, expected, got)


def custom_backward(self: Any, *gradients: Any) -> Any:
    """Run the `backward` of a custom Function and check that its results are on the devices of the inputs."""
    returned = _real_custom_backward(self, *gradients)
    results = returned if isinstance(returned, tuple) else (returned,)
    edges = self.next_functions
    if len(results) != len(edges):
        # Arguments other than tensors have no edge, and their gradient is None.
        results = tuple(result for result in results if result is not None)
    pairs = zip(results, edges, strict=True) if len(results) == len(edges) else ()
    for position, (gradient, (node, place)) in enumerate(pairs):
        # The engine itself moves a 0-d gradient.
        if node is None or not isinstance(gradient, Tensor) or gradient.dim() == 0:
            continue
        expected, got = device_from_cpp(node._input_metadata[place].device), device_from_cpp(gradient.device)
        if expected != got:
            raise cuda_errors.invalid_gradient(self.name(), position, expected, got)
    return returned


def device_attribute(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return `tensor.device`, also inside `vmap` and `grad`."""
    return device_from_cpp(func(*args))


def is_on_gpu(tensor: Tensor) -> bool:
    """Return True for a virtual tensor, also inside transforms of torch.func and in captured graphs."""
    device = tensor.device
    return device.type == "cuda" or (device.type == "meta" and device.index is not None)


def is_cuda_attribute(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return `tensor.is_cuda`, also inside `vmap` and `grad`."""
    return is_on_gpu(args[0])


def is_meta_attribute(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return `tensor.is_meta`, also inside `vmap` and `grad`."""
    return func(*args) and not is_on_gpu(args[0])


def get_device(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return `tensor.get_device()`, also inside `vmap` and `grad`."""
    device = device_from_cpp(args[0].device)
    return device.index if device.type == "cuda" else func(*args, **kwargs)

"""Typed tensor constructors, such as `torch.cuda.FloatTensor`."""

from __future__ import annotations

import weakref
from typing import Any, cast

import torch

from gpututor.devices.virtual import cuda_errors, torch_private
from gpututor.devices.virtual.machine import CPU, META, VirtualMachine, active_machine, cpp_device, requested_device
from gpututor.devices.virtual.operators.fallbacks import CPP_DTYPES
from gpututor.devices.virtual.operators.special import set_source
from gpututor.devices.virtual.tensors.storage import virtual_storage
from gpututor.devices.virtual.tensors.tensor import VirtualTensor

_NOT_RECOMMENDED = (
    "The torch.cuda.*DtypeTensor constructors are no longer recommended. It's best to use methods such as "
    "torch.tensor(data, dtype=*, device='cuda') to create tensors."
)
"""Warning of torch/csrc/tensor/python_tensor.cpp."""
_DEPRECATED = (
    "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use torch.set_default_dtype() and "
    "torch.set_default_device() as alternatives."
)
"""Warning of torch/csrc/tensor/python_tensor.cpp."""
_warned: weakref.WeakKeyDictionary[VirtualMachine, set[str]] = weakref.WeakKeyDictionary()
"""The warnings that each machine has shown."""
Tensor = torch.Tensor
_real_set_default: Any = torch.set_default_tensor_type
_RealHostType: Any = type(torch.FloatTensor)


def _warn_once(machine: VirtualMachine, words: str) -> None:
    """Warn once for a machine, or always after `torch.set_warn_always(True)`."""
    shown = _warned.setdefault(machine, set())
    if words not in shown or torch.is_warn_always_enabled():
        shown.add(words)
        cuda_errors.warn_at_caller(words)


class DeviceTensorType(type):
    """Metaclass of `torch.cuda.FloatTensor` and others: a call makes a tensor, and any such tensor is an instance."""

    dtype: torch.dtype
    layout: torch.layout
    is_cuda = True
    is_sparse: bool

    def __instancecheck__(cls, instance: object) -> bool:
        return (
            isinstance(instance, torch.Tensor)
            and instance.is_cuda
            and instance.dtype is cls.dtype
            and instance.layout is cls.layout
        )

    def __call__(cls, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Run the legacy constructor: sizes make a tensor without values; a sequence or tensor has the values."""
        if cls.is_sparse:
            raise cuda_errors.unsupported(
                f"{cls.__module__}.{cls.__name__}(...) with these arguments", "Use torch.tensor."
            )
        machine = active_machine()
        _warn_once(machine, _NOT_RECOMMENDED)
        return cast(torch.Tensor, legacy_new(cls.dtype, machine.current.device, args, kwargs))


def _type(kind: str, module: str, layout: torch.layout) -> DeviceTensorType:
    body = {"__module__": module, "dtype": CPP_DTYPES[kind], "layout": layout, "is_sparse": layout is not torch.strided}
    return DeviceTensorType(f"{kind}Tensor", (), body)


TENSOR_TYPES = {f"{kind}Tensor": _type(kind, "torch.cuda", torch.strided) for kind in CPP_DTYPES}
SPARSE_TENSOR_TYPES = {
    f"{kind}Tensor": _type(kind, "torch.cuda.sparse", torch.sparse_coo) for kind in CPP_DTYPES if kind != "Bool"
}


def parse_tensor_type(wanted: Any) -> tuple[str | None, torch.dtype] | None:
    """Return device type and dtype for `Tensor.type(wanted)`; no device for a dtype, None for no type."""
    if isinstance(wanted, torch.dtype):
        return None, wanted
    if isinstance(wanted, DeviceTensorType):
        _refuse_sparse(wanted.__module__)
        return "cuda", wanted.dtype
    if isinstance(wanted, _RealHostType | type(torch.FloatTensor)):
        wanted = f"{wanted.__module__}.{wanted.__name__}"
    if not isinstance(wanted, str):
        return None
    module, _, name = wanted.rpartition(".")
    dtype = CPP_DTYPES.get(name.removesuffix("Tensor"))
    if dtype is None or not name.endswith("Tensor"):
        return None
    _refuse_sparse(module)
    return {"torch": "cpu", "torch.cuda": "cuda"}.get(module), dtype


def _refuse_sparse(module: str) -> None:
    if module.endswith(".sparse"):
        raise cuda_errors.unsupported(f"Tensor.type of {module}", "Use .to_sparse().")


def set_default_tensor_type(t: Any) -> None:
    """Set the default dtype and the default device for a device's type."""
    device, dtype = (None, None) if isinstance(t, torch.dtype) else parse_tensor_type(t) or (None, None)
    if device is None or dtype is None:
        _real_set_default(t)
        return
    if not dtype.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    _warn_once(active_machine(), _DEPRECATED)
    torch.set_default_dtype(dtype)
    torch.set_default_device(None if device == "cpu" else device)


def legacy_new(dtype: torch.dtype, device: torch.device, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Make a tensor on the GPU `device` from sizes (without values), from a sequence, or from a storage.

    `options` may name another GPU. Raises `NotImplementedError` for tensors and named arguments.
    """
    if options.get("device") is not None:
        device = requested_device(options["device"])
        if device.type != "cuda":
            raise RuntimeError(
                f"legacy constructor expects device type: cuda but device type: {device.type} was passed"
            )
    first = args[0] if args else None
    on_storage = len(args) == 1 and torch.is_storage(first)
    if options.keys() - {"device"} or isinstance(first, Tensor):
        raise cuda_errors.unsupported("an old constructor with these arguments", "Use torch.tensor or torch.empty.")
    active_machine().home(device)
    with torch_private.no_function_modes():
        place = META[device.index]
        if on_storage:  # a worker of a DataLoader collates a batch into a storage
            return set_source(torch.empty((0,), dtype=dtype, device=place), first)  # type: ignore[arg-type]
        if len(args) == 1 and not isinstance(first, torch.Size) and not _is_length(first):
            if not hasattr(first, "__len__"):
                raise TypeError(f"new(): data must be a sequence (got {type(first).__name__})")
            return torch.tensor(first, dtype=dtype, device=place)
        sizes = first if len(args) == 1 and isinstance(first, torch.Size) else args
        return torch.empty(sizes or (0,), dtype=dtype, device=place)


def _is_length(value: Any) -> bool:
    # NumPy's arrays have both methods.
    return hasattr(value, "__index__") and not hasattr(value, "__len__")


def refuse_apply(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Refuse `apply_`, `map_` and `map2_` on a GPU, as torch/csrc/utils/tensor_apply.cpp does."""
    tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
    if not any(type(tensor) is VirtualTensor for tensor in tensors):
        return func(*args, **kwargs)
    name = func.__name__
    if any(tensor.requires_grad for tensor in tensors):
        raise RuntimeError(f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead.")
    raise TypeError(f"{name} is only implemented on CPU tensors")


def convert_type(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    wanted = args[1] if len(args) > 1 else kwargs.get("dtype")
    if wanted is None:
        return func(*args, **kwargs)
    parsed = parse_tensor_type(wanted)
    if parsed is None:
        raise ValueError(f"invalid type: {str(wanted)!r}")  # torch/csrc/autograd/python_variable_methods.cpp
    kind, dtype = parsed
    non_blocking = args[2] if len(args) > 2 else kwargs.get("non_blocking", False)
    options: dict[str, Any] = {"dtype": dtype, "non_blocking": non_blocking}
    if kind is not None and args[0].device.type != kind:
        options["device"] = cpp_device(kind)
    return args[0].to(**options)


class HostTensorType(type):
    """Metaclass of the replacements for `torch.FloatTensor` and other legacy types, equal to the real types."""

    real: Any

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and (storage := virtual_storage(args[0])) is not None:
            raise cuda_errors.wrong_storage(CPU, storage.device)
        try:
            return cls.real(*args, **kwargs)
        except (TypeError, RuntimeError) as error:
            error.args = (cuda_errors.with_cuda_device_names(str(error)),)
            raise

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.real)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls.real, name)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls.real

    def __hash__(cls) -> int:
        return hash(cls.real)


HOST_TENSOR_TYPES = {
    f"{kind}Tensor": HostTensorType(
        f"{kind}Tensor", (), {"__module__": "torch", "real": getattr(torch, f"{kind}Tensor")}
    )
    for kind in CPP_DTYPES
}

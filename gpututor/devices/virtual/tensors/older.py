"""The oldest ways to make and to fill tensors: `tensor.new(...)`, `torch.cuda.FloatTensor(...)`, `apply_`, `map_`."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.devices.virtual import errors, private
from gpututor.devices.virtual.face.types import meant
from gpututor.devices.virtual.machine import META, active, cpp_device, meant_device
from gpututor.devices.virtual.tensors.sources import set_source
from gpututor.devices.virtual.tensors.storage import VirtualStorage, VirtualTypedStorage
from gpututor.devices.virtual.tensors.tensor import VirtualTensor

Tensor = torch.Tensor


def construct(dtype: torch.dtype, device: torch.device, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """A tensor of that kind on the GPU `device`: sizes make one without values, a sequence or a tensor gives them.

    `options` may name another GPU. As `legacy_tensor_generic_ctor_new` of torch/csrc/utils/tensor_new.cpp.
    """
    given = options.get("device")
    args = _by_position(args, options)
    first = args[0] if args else None
    if isinstance(first, Tensor) and given is not None:
        raise RuntimeError(
            "Legacy tensor new of the form tensor.new(tensor, device=device) is not supported.  "
            "Use torch.as_tensor(...) instead."
        )
    if given is not None:
        device = _gpu_meant(given)
    if len(args) == 1 and isinstance(first, Tensor):
        _check_kind(first, dtype)
        return torch.ops.aten.alias(first)
    active().home(device)
    with private.no_function_modes():
        place = META[device.index]
        if len(args) == 1 and (isinstance(first, VirtualStorage) or torch.is_storage(first)):
            return _on_storage(dtype, place, first)
        if len(args) == 1 and not isinstance(first, torch.Size) and not _is_length(first):
            if not hasattr(first, "__len__"):
                raise TypeError(f"new(): data must be a sequence (got {type(first).__name__})")
            return torch.tensor(first, dtype=dtype, device=place)
        sizes = first if len(args) == 1 and isinstance(first, torch.Size) else args
        return torch.empty(sizes or (0,), dtype=dtype, device=place)


def _by_position(args: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, ...]:
    """The one argument that may be named instead; a size by its name is never taken for values."""
    named = {name: value for name, value in options.items() if name != "device"}
    if not named:
        return args
    name, value = named.popitem()
    if args or named or name not in ("size", "data", "other", "storage"):
        raise TypeError("new() received an invalid combination of arguments")
    return (torch.Size(value),) if name == "size" else (value,)


def _is_length(value: Any) -> bool:
    # NumPy's arrays have both.
    return hasattr(value, "__index__") and not hasattr(value, "__len__")


def _gpu_meant(given: Any) -> torch.device:
    device = meant_device(given)
    if device.type != "cuda":
        raise RuntimeError(f"legacy constructor expects device type: cuda but device type: {device.type} was passed")
    return device


def _check_kind(other: Tensor, dtype: torch.dtype) -> None:
    """The tensor that an old constructor is given has to be of its kind; the words are C++'s own for two others."""
    if other.is_cuda and other.dtype is dtype and other.layout is torch.strided:
        return
    with private.host_only():
        placeholder = torch.empty((0,), dtype=other.dtype, device="cpu" if other.dtype is not dtype else "meta")
        try:
            torch.empty((0,), dtype=dtype).new(placeholder)
        except TypeError as error:
            expected, got = str(error).split(" (got ")
    got = got.replace(f"device={placeholder.device}", f"device={other.device}")
    if other.layout is not torch.strided:
        raise errors.unsupported(f"an old constructor with a tensor of layout {other.layout}", "Use .to_dense().")
    raise TypeError(expected.replace("device=cpu", "device=cuda") + " (got " + got)


def _on_storage(dtype: torch.dtype, place: torch.device, storage: Any) -> Any:
    if isinstance(storage, VirtualTypedStorage) and storage.dtype is not dtype:
        raise TypeError(
            f"Expected a Storage of type {dtype} or an UntypedStorage, but got type {storage.dtype} "
            "for argument 1 'storage'"
        )
    return set_source(torch.empty((0,), dtype=dtype, device=place), storage)  # type: ignore[arg-type]


def _in_cpp(tensor: Tensor) -> str:
    """The kind of a tensor as C++ says it: `CUDAFloatType`."""
    host = tensor._host if type(tensor) is VirtualTensor else tensor
    kind = host.type().rpartition(".")[-1].removesuffix("Tensor")
    return ("Sparse" if host.layout is torch.sparse_coo else "") + f"{'CUDA' if tensor.is_cuda else 'CPU'}{kind}Type"


def refuse_apply(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`apply_`, `map_` and `map2_`: Python for each element, on the CPU only (torch/csrc/utils/tensor_apply.cpp)."""
    target, *others = tensors = [one for one in (*args, *kwargs.values()) if isinstance(one, Tensor)]
    if not any(type(one) is VirtualTensor for one in tensors):
        return func(*args, **kwargs)
    name = func.__name__
    if any(one.requires_grad for one in tensors):
        raise RuntimeError(f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead.")
    for one, said in zip(others, ("'other'",) if name == "map_" else ("argument 'x'", "argument 'y'"), strict=False):
        if (one.is_cuda, one.dtype, one.layout) != (target.is_cuda, target.dtype, target.layout):
            raise TypeError(f"{name}: expected {_in_cpp(target)} for {said} (got {_in_cpp(one)})")
    raise TypeError(f"{name} is only implemented on CPU tensors")


def convert_type(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`tensor.type(...)`: another dtype, or a type with its device."""
    wanted = args[1] if len(args) > 1 else kwargs.get("dtype")
    if wanted is None:
        return func(*args, **kwargs)
    found = meant(wanted)
    if found is None:
        raise ValueError(f"invalid type: {str(wanted)!r}")  # torch/csrc/autograd/python_variable_methods.cpp
    kind, dtype = found
    non_blocking = args[2] if len(args) > 2 else kwargs.get("non_blocking", False)
    options: dict[str, Any] = {"dtype": dtype, "non_blocking": non_blocking}
    if kind is not None and args[0].device.type != kind:
        options["device"] = cpp_device(kind)
    return args[0].to(**options)

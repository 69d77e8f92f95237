"""`torch.cuda.FloatTensor` and its kin: types that make tensors of a device, and to which tensors are instances."""

from __future__ import annotations

from typing import Any, cast

import torch

from gpututor.devices.virtual import errors
from gpututor.devices.virtual.machine import active

_DTYPES = {
    "Float": torch.float32,
    "Double": torch.float64,
    "Half": torch.float16,
    "BFloat16": torch.bfloat16,
    "Byte": torch.uint8,
    "Char": torch.int8,
    "Short": torch.int16,
    "Int": torch.int32,
    "Long": torch.int64,
    "Bool": torch.bool,
}
_real_set_default: Any = torch.set_default_tensor_type
_RealHostType: Any = type(torch.FloatTensor)


class DeviceTensorType(type):
    """The class of `torch.cuda.FloatTensor`: a call makes a tensor, an instance is any tensor of that kind."""

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
        """The legacy constructor: sizes make a tensor without values, one sequence or tensor gives them."""
        from gpututor.devices.virtual.tensors.older import construct

        if cls.is_sparse:
            raise errors.unsupported(f"{cls.__module__}.{cls.__name__}(...) with these arguments", "Use torch.tensor.")
        return cast(torch.Tensor, construct(cls.dtype, active().current.device, args, kwargs))


def _type(kind: str, module: str, layout: torch.layout) -> DeviceTensorType:
    body = {"__module__": module, "dtype": _DTYPES[kind], "layout": layout, "is_sparse": layout is not torch.strided}
    return DeviceTensorType(f"{kind}Tensor", (), body)


TENSOR_TYPES = {f"{kind}Tensor": _type(kind, "torch.cuda", torch.strided) for kind in _DTYPES}
SPARSE_TENSOR_TYPES = {
    f"{kind}Tensor": _type(kind, "torch.cuda.sparse", torch.sparse_coo) for kind in _DTYPES if kind != "Bool"
}
STORAGE_TYPES = (*(f"{kind}Storage" for kind in _DTYPES), "ComplexDoubleStorage", "ComplexFloatStorage")


def meant(wanted: Any) -> tuple[str | None, torch.dtype] | None:
    """The kind of device and the dtype that `Tensor.type(wanted)` means; no device for a dtype, None for no type."""
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
    dtype = _DTYPES.get(name.removesuffix("Tensor"))
    if dtype is None or not name.endswith("Tensor"):
        return None
    _refuse_sparse(module)
    return {"torch": "cpu", "torch.cuda": "cuda"}.get(module), dtype


def _refuse_sparse(module: str) -> None:
    if module.endswith(".sparse"):
        raise errors.unsupported(f"Tensor.type of {module}", "Use .to_sparse().")


def set_default_tensor_type(t: Any) -> None:
    """Stands in for `torch.set_default_tensor_type`: a device's type is a default dtype and a default device."""
    found = None if isinstance(t, torch.dtype) else meant(t)
    if found is None or found[0] is None:
        _real_set_default(t)
        return
    device, dtype = found
    if not dtype.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    torch.set_default_dtype(dtype)
    torch.set_default_device(None if device == "cpu" else device)

"""Products of half precision with a result in float32: `torch.mm(a, b, out_dtype=torch.float32)` and its kin.

CUDA alone has them. Its kernels add up in float32 anyway, and leave out the rounding at the end; here the CPU computes
all of it in float32, in which products of two halves are exact. What is asked of the dtypes, and CUDA's words for it,
are those of aten/src/ATen/native/cuda/Blas.cpp. Autograd has no formula for them: `backward` raises PyTorch's error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_aten = torch.ops.aten
_FACTORS = {"mm": ("self", "mat2"), "addmm": ("mat1", "mat2"), "bmm": ("self", "mat2"), "baddbmm": ("batch1", "batch2")}
"""What each multiplies, by its names."""
_HALVES = (torch.float16, torch.bfloat16)


def calls() -> dict[Any, Callable[..., Any]]:
    """How each overload with an `out_dtype` is computed on the CPU; of those that this torch has."""
    found = {}
    for name in _FACTORS:
        packet = getattr(_aten, name)
        for overload in {"dtype", "dtype_out"} & set(packet.overloads()):
            func = getattr(packet, overload)
            found[func] = _on_cpu(func, packet)
    return found


def _on_cpu(func: Any, packet: Any) -> Callable[..., Any]:
    names = [one.name for one in func._schema.arguments if not one.kwarg_only]
    factors = _FACTORS[packet.__name__]

    def call(*args: Any, **kwargs: Any) -> Any:
        given = dict(zip(names, args, strict=False)) | kwargs
        dtype, out = given.pop("out_dtype"), given.pop("out", None)
        _check(given, factors, dtype, out)
        made = packet(**{name: _as(value, dtype) for name, value in given.items()})
        return made if out is None else out.resize_(made.shape).copy_(made)

    return call


def _as(value: Any, dtype: torch.dtype) -> Any:
    return value.to(dtype) if isinstance(value, torch.Tensor) else value


def _check(given: dict[str, Any], factors: tuple[str, str], dtype: torch.dtype, out: torch.Tensor | None) -> None:
    """Raises CUDA's error for dtypes that do not go together."""
    left, right = (given[name] for name in factors)
    if out is not None and out.dtype is not dtype:
        raise RuntimeError("out_dtype must be the same as the dtype of the provided out tensor")
    if left.dtype is not right.dtype:
        raise RuntimeError("input dtypes must be the same")
    if dtype is not left.dtype and not (dtype is torch.float32 and left.dtype in _HALVES):
        raise RuntimeError("out_dtype must be the same as input dtype or fp32 for fp16/bf16 inputs")
    if "self" not in factors and given["self"].dtype not in (dtype, left.dtype):
        raise RuntimeError(f"self dtype must match either out_dtype or {factors[0]} dtype")

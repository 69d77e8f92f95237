"""CUDA's refusals of dtypes that its kernels lack and the CPU's have."""

from __future__ import annotations

import re
from typing import Any

import torch

from gpututor.devices.virtual.operator_registry import Operator

_NOT_IMPLEMENTED = re.compile(r'^"(?P<kernel>[^"]+)" not implemented for \'(?P<dtype>\w+)\'')
_NAMES = {
    "bool": "Bool",
    "uint8": "Byte",
    "int8": "Char",
    "int16": "Short",
    "int32": "Int",
    "int64": "Long",
    "float16": "Half",
    "bfloat16": "BFloat16",
    "float32": "Float",
    "float64": "Double",
}
"""The names of dtypes in C++ (c10/core/ScalarType.h)."""


def check_dtype(op: Operator, hosts: list[Any], named: dict[str, Any], capability: tuple[int, int]) -> None:
    """Raises CUDA's error for operands of a dtype that its kernel lacks, and the CPU's for operands that cannot be.

    The CPU computes first, on copies, because CUDA too looks at sizes before it looks for a kernel.
    """
    kernel = op.cuda_kernel
    assert kernel is not None
    if kernel.below_capability is not None:
        if capability >= kernel.below_capability:
            return
        raise kernel.refusal(op, "")
    if kernel.reductions and not kernel.reductions & {one for one in (*hosts, *named.values()) if type(one) is str}:
        return
    try:
        out = op.call(*map(_copied, hosts), **{name: _copied(one) for name, one in named.items()})
    except NotImplementedError as error:
        raise in_cudas_name(error, op) from None
    if kernel.skips_empty and (_is_empty(out) or any(_is_empty(one) for one in hosts)):
        return
    raise kernel.refusal(op, _NAMES[str(hosts[0].dtype).removeprefix("torch.")])


def in_cudas_name(error: Exception, op: Operator) -> Exception:
    """The CPU's refusal of a dtype in the name of CUDA's kernel; any other error itself."""
    found = _NOT_IMPLEMENTED.match(str(error))
    if found is None:
        return error
    if op.cuda_kernel is not None:
        return op.cuda_kernel.refusal(op, found["dtype"])
    # Most kernels are called alike: mse_cpu and mse_cuda.
    kernel = found["kernel"].replace("_cpu", "_cuda")
    return NotImplementedError(f"\"{kernel}\" not implemented for '{found['dtype']}'")


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _is_empty(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.numel() == 0

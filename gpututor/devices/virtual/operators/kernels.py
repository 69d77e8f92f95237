"""What CUDA's kernels cannot do where the CPU's can: dtypes that they lack, read from `kernels.toml`."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from gpututor.devices.virtual.operators.overloads import Operator

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
"""What C++ calls a dtype (c10/core/ScalarType.h)."""


@dataclass(frozen=True, slots=True)
class CudaKernel:
    """What is known of the CUDA kernel of an operator."""

    says: str
    """Its words for a dtype that it lacks."""
    error: type[RuntimeError]
    lacks: frozenset[torch.dtype]
    """The dtypes that it lacks and the CPU has."""
    reductions: frozenset[str]
    """Lacks them for these values of `reduce` alone; empty: for all."""
    below_capability: tuple[int, int] | None
    """Lacks them on GPUs of a lower compute capability alone; None: on all."""
    skips_empty: bool
    """Whether it is done with tensors without elements before it looks at the dtype."""

    def refusal(self, op: Operator, dtype_name: str) -> RuntimeError:
        """CUDA's error for a dtype, given C++'s name for it."""
        return self.error(self.says.format(dtype=dtype_name, operator=op.func.name()))


@cache
def kernels() -> dict[str, CudaKernel]:
    """The kernels of `kernels.toml` by the operator's name, with their forms in place."""
    text = (Path(__file__).parent / "kernels.toml").read_text(encoding="utf-8")
    found = {}
    for entry in tomllib.loads(text)["kernel"]:
        name = entry.get("name")
        kernel = CudaKernel(
            entry["says"] if name is None else f"\"{name}\" not implemented for '{{dtype}}'",
            RuntimeError if name is None and "Could not run" not in entry["says"] else NotImplementedError,
            frozenset(getattr(torch, one) for one in entry.get("dtypes", ())),
            frozenset(entry.get("reductions", ())),
            tuple(entry["below_capability"]) if "below_capability" in entry else None,
            entry.get("empty", False),
        )
        for operator in entry["operators"]:
            found[operator] = found[operator + "_"] = kernel
    return found


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

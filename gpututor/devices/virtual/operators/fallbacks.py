"""Fallbacks and errors for operators that the CPU computes differently from CUDA, or not at all.

On the CPU, an index out of range raises an error immediately. On CUDA, an assertion fails inside the kernel, and a
later call that synchronizes raises the error. Here the call itself raises CUDA's error, as with CUDA_LAUNCH_BLOCKING=1,
with the CPU's error as its cause. All later CUDA calls raise the error again, until the process, the test or the graded
call ends.

Operators without a CPU kernel raise an error that names them. Operators that `operators.toml` lists as unsupported
raise before they run.
"""

from __future__ import annotations

import re
from typing import Any

import torch

from gpututor.devices.virtual import cuda_errors, torch_private
from gpututor.devices.virtual.machine import active_machine
from gpututor.devices.virtual.operator_facts import tables
from gpututor.devices.virtual.operator_registry import Operator, Rule
from gpututor.devices.virtual.operators.half_precision import in_single

REFUSALS = (NotImplementedError, RuntimeError, IndexError)
"""Errors that the CPU's kernels raise, but CUDA's may not."""

_NO_HALF = re.compile(r"not implemented for '(Half|BFloat16|ComplexHalf)'|MKL FFT doesn't support tensors of type")
_NO_KERNEL = re.compile(r"Could not run '(aten::\w+)[.\w]*' with arguments from the '\w*CPU' backend")
_OUT_OF_RANGE = re.compile(
    r"index out of range|is out of bounds|out of bounds$|Expected idx >= 0|all elements of input should be between 0"
    r"|tried to access index|is not in the valid range|Indices are out of bounds|Expected p_in >= 0 && p_in <= 1"
)
_LEGACY_TYPE = re.compile(r"got torch\.(\w+)Tensor instead")
_FROM_HOST = "dimension with size 0"
"""The end of an index error that CUDA raises on the host, before it launches a kernel."""


def retry(error: Exception, op: Operator, hosts: Any, named: dict[str, Any]) -> Any:
    """Return CUDA's result of an operator that failed with `error` on the CPU, or raise CUDA's error."""
    message = str(error)
    if op.facts.asserts_index and _OUT_OF_RANGE.search(message):
        if message.endswith(_FROM_HOST):
            raise error
        if active_machine().capture is not None:
            return _without_indices(op, hosts, named)
        active_machine().fail()
        raise cuda_errors.device_assert() from error
    if message == "ZeroDivisionError":
        if op.writes:  # the CPU has written a part of the result
            raise cuda_errors.unsupported(
                f"{op.name} by zero", "Leave zeros out: on CUDA the result is undefined."
            ) from error
        return _divide_by_zero(op, hosts, named)
    if op.facts.half_on_cuda and _NO_HALF.search(message):
        return in_single(op.call, op.func, hosts, named)
    if (missing := _NO_KERNEL.search(message)) is None:
        raise _of_cudas_check(message, op, hosts) or in_cudas_name(error, op) from error.__cause__
    call = "torch.ops." + missing[1].replace("::", ".")
    raise cuda_errors.unsupported(call, "The CPU has no such kernel.") from error


def wrong_scalar_type(wanted: torch.dtype, given: torch.dtype) -> RuntimeError:
    """Return the error of a kernel's template for a tensor of another dtype (TensorMethods.cpp)."""
    return RuntimeError(f"expected scalar type {_NAMES[wanted]} but found {_NAMES[given]}")


def _of_cudas_check(message: str, op: Operator, hosts: Any) -> RuntimeError | None:
    """Return the error of CUDA's function for dtypes that the CPU's function rejects in other words."""
    if "expected m1 and m2 to have the same dtype" in message:
        return RuntimeError(message.replace("m1 and m2", "mat1 and mat2"))
    if _LEGACY_TYPE.search(message):
        return RuntimeError(_LEGACY_TYPE.sub(r"got torch.cuda.\1Tensor instead", message))
    dtypes = [host.dtype for host in hosts if isinstance(host, torch.Tensor)]
    other = next((dtype for dtype in dtypes if dtype is not dtypes[0]), None)
    if other is None:
        return None
    if op.name == "aten::convolution" and message.startswith("expected scalar type"):
        image, weight = (f"torch.cuda.{_NAMES[dtype]}Tensor" for dtype in (dtypes[0], other))
        return RuntimeError(f"Input type ({image}) and weight type ({weight}) should be the same")
    return wrong_scalar_type(dtypes[0], other) if message.startswith("mixed dtype (CPU)") else None


def _without_indices(op: Operator, hosts: Any, named: dict[str, Any]) -> Any:
    """Return a result of the right shape. In a capture no kernel runs, so indices may be undefined until a replay."""
    if op.writes:
        place, name = op.writes[0]
        return named[name] if name in named else hosts[place]

    def zeroed(value: Any) -> Any:
        is_index = isinstance(value, torch.Tensor) and not (value.is_floating_point() or value.is_complex())
        return torch.zeros_like(value) if is_index else value

    hosts, named = torch_private.tree_map(zeroed, (list(hosts), named))
    return op.call(*hosts, **named)


def _divide_by_zero(op: Operator, hosts: Any, named: dict[str, Any]) -> Any:
    """Divide integers by zero without an error: quotients have all bits set, remainders are the dividend.

    CUDA raises no error either, and leaves the values undefined.
    """
    dividend, divisor, *rest = hosts
    undefined = torch.as_tensor(-1 if "div" in op.name else dividend).clone()
    if not isinstance(divisor, torch.Tensor):
        out = op.call(dividend, 1, *rest, **named)
        return out.copy_(undefined)
    is_zero = divisor == 0
    out = op.call(dividend, torch.where(is_zero, 1, divisor), *rest, **named)
    return out.copy_(torch.where(is_zero, undefined.to(out.dtype), out))


def refusing_rules() -> dict[Any, Rule]:
    """Return a rule that raises `NotImplementedError` for each overload of an unsupported operator."""
    rules: dict[Any, Rule] = {}
    for name, (_, instead) in tables()["unsupported"].items():
        packet = getattr(torch.ops.aten, name)
        for overload in packet.overloads():
            rules[getattr(packet, overload)] = cuda_errors.refused_function("torch.ops.aten." + name, instead)
    return rules


_NOT_IMPLEMENTED = re.compile(r'^"(?P<kernel>[^"]+)" not implemented for \'(?P<dtype>\w+)\'')
CPP_DTYPES = {
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
"""Dtypes of the legacy tensor types, by their names in C++ (c10/core/ScalarType.h)."""
_NAMES = {dtype: name for name, dtype in CPP_DTYPES.items()} | {
    torch.complex64: "ComplexFloat",
    torch.complex128: "ComplexDouble",
}


def check_dtype(op: Operator, hosts: list[Any], named: dict[str, Any], capability: tuple[int, int]) -> None:
    """Raise CUDA's error for a dtype that its kernel lacks, or the CPU's error for impossible operands.

    The CPU runs the operator first, on copies, because CUDA too checks sizes before it selects a kernel.
    """
    kernel = op.cuda_kernel
    assert kernel is not None
    if kernel.below_capability is not None:
        if capability >= kernel.below_capability:
            return
        raise kernel.refusal(op, "")
    if kernel.reductions and not kernel.reductions & {
        value for value in (*hosts, *named.values()) if type(value) is str
    }:
        return
    try:
        out = op.call(*map(_copied, hosts), **{name: _copied(value) for name, value in named.items()})
    except NotImplementedError as error:
        raise in_cudas_name(error, op) from None
    if kernel.skips_empty and (_is_empty(out) or any(_is_empty(host) for host in hosts)):
        return
    raise kernel.refusal(op, _NAMES[hosts[0].dtype])


def in_cudas_name(error: Exception, op: Operator) -> Exception:
    """Replace the kernel's name in the CPU's error for a dtype by CUDA's; return any other error unchanged."""
    match = _NOT_IMPLEMENTED.match(str(error))
    if match is None:
        return error
    if op.cuda_kernel is not None:
        return op.cuda_kernel.refusal(op, match["dtype"])
    # Most kernels have the same name except for the device: mse_cpu and mse_cuda.
    kernel = "ufunc_add_CUDA" if match["kernel"] == "add_stub" else match["kernel"].replace("_cpu", "_cuda")
    return NotImplementedError(f"\"{kernel}\" not implemented for '{match['dtype']}'")


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _is_empty(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.numel() == 0

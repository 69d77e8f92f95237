"""Structure: the result has the type, nesting, shapes and dtypes of the reference's result."""

from __future__ import annotations

from typing import Any, Literal

import torch

from gpututor.checks.model import Applies, Call, Check, Finding, Reference, Run, in_each_call, run_reference
from gpututor.checks.trees import (
    describe_expected,
    describe_key,
    first_difference,
    part_name,
    tensors_by_path,
    type_name,
    unwrap,
)
from gpututor.errors import CourseError
from gpututor.protocol.values import ObservedTensor

MemoryFormat = Literal["contiguous", "channels_last"]

WHY = "Callers depend on the type, shapes and dtypes that a function returns."
_SHOWN_PARTS = 6
_SHOWN_DEPTH = 2


def structure(
    reference: Reference,
    *,
    memory_format: MemoryFormat | None = None,
    name: str = "structure",
    why: str = WHY,
    advice: str = "",
    on: Applies = "everywhere",
) -> Check:
    """Check that the result has the structure of the reference's, called on the inputs in their own dtype.

    With `memory_format` also check the strides of each tensor. `contiguous` is row by row. `channels_last` has the
    channels of images (4 dimensions) and volumes (5 dimensions) innermost, and other tensors row by row.
    """
    if memory_format not in (None, "contiguous", "channels_last"):
        raise CourseError(f"structure: memory_format={memory_format!r}", 'Use "contiguous" or "channels_last".')

    def find(run: Run, call: Call) -> Finding | None:
        wanted = run_reference(reference, call.drawn, in_float64=False)
        difference = first_difference(wanted, call.output, _compare_leaves)
        if difference is not None:
            expected = describe_expected(difference, describe, wanted)
            advice = "Compare what your function returns with the example in the task."
            got = f"{part_name(difference.path, call.output)} is {difference.wrong}"
            return run.finding(call, expected, got, advice=advice)
        return _wrong_strides(run, call, memory_format) if memory_format is not None else None

    sentence = "The result has the right type, shape and dtype"
    return Check(name, lambda _: sentence, in_each_call(find), (), why, advice, on, results_only=True, kind="structure")


def _wrong_strides(run: Run, call: Call, memory_format: MemoryFormat) -> Finding | None:
    for path, tensor in tensors_by_path(call.output).items():
        shape, strides = tensor.fact.shape, tensor.fact.strides
        is_last = memory_format == "channels_last" and len(shape) in (4, 5)
        right = _strides(shape, channels_last=is_last)
        # Strides of dimensions of length 1 mean nothing; without elements no stride means anything.
        if 0 not in shape and any(
            length > 1 and stride != wanted for length, stride, wanted in zip(shape, strides, right, strict=True)
        ):
            name = f"torch.channels_last{'_3d' if len(shape) == 5 else ''}"
            convert = f".to(memory_format={name})" if is_last else ".contiguous()"
            layout = "channels_last" if is_last else "contiguous"
            return run.finding(
                call,
                f"{part_name(path, call.output)} of shape {shape} {layout} in memory: strides {right}",
                f"strides {strides}",
                advice=f"The shape stays as it is: {convert} changes only how the values lie in memory, which decides"
                " how fast kernels read them.",
            )
    return None


def _strides(shape: tuple[int, ...], *, channels_last: bool) -> tuple[int, ...]:
    """Return the strides in elements of a tensor without gaps."""
    inner_first = [*reversed(range(len(shape)))]
    if channels_last:
        inner_first = [1, *reversed(range(2, len(shape))), 0]
    strides, step = [0] * len(shape), 1
    for dimension in inner_first:
        strides[dimension] = step
        step *= shape[dimension]
    return tuple(strides)


def describe(value: Any, depth: int = 0) -> str:
    """Describe a value's structure: `a dict: 'x' a tensor of shape (2, 3), torch.float32`."""
    kind = type_name(value)
    value = unwrap(value)
    match value:
        case torch.Tensor() | ObservedTensor():
            return describe_tensor(*shape_and_dtype(value))
        case dict() if depth < _SHOWN_DEPTH:
            lead = f"{kind}:" if kind == "a dict" else f"{kind} with"
            parts = [
                f"{describe_key(key)} {describe(part, depth + 1)}" for key, part in list(value.items())[:_SHOWN_PARTS]
            ]
        case list() | tuple() if depth < _SHOWN_DEPTH:
            lead = f"{kind} of {len(value)}:"
            parts = [describe(part, depth + 1) for part in value[:_SHOWN_PARTS]]
        case _ if type_name(value) == "a NumPy array":
            return f"a NumPy array of shape {value.shape}, {value.dtype}"
        case _:
            return type_name(value)
    return f"{lead} {'; '.join(parts)}{', …' if len(value) > _SHOWN_PARTS else ''}"


def _compare_leaves(_: str, expected: Any, got: Any) -> str | None:
    if type_name(expected) == "a NumPy array":
        if (expected.shape, expected.dtype) == (got.shape, got.dtype):
            return None
        return f"a NumPy array of shape {got.shape}, {got.dtype} instead of {expected.shape}, {expected.dtype}"
    if isinstance(expected, torch.Tensor):
        wanted_shape, wanted_dtype = shape_and_dtype(expected)
        shape, dtype = shape_and_dtype(got)
        if shape != wanted_shape:
            return f"a tensor of shape {shape} instead of {wanted_shape}"
        if dtype != wanted_dtype:
            return f"a tensor of {dtype} instead of {wanted_dtype}"
    return None


def shape_and_dtype(tensor: torch.Tensor | ObservedTensor) -> tuple[tuple[int, ...], str]:
    if isinstance(tensor, ObservedTensor):
        return tensor.fact.shape, f"torch.{tensor.fact.dtype}"
    return tuple(tensor.shape), str(tensor.dtype)


def describe_tensor(shape: tuple[int, ...], dtype: str) -> str:
    return f"a tensor of shape {shape}, {dtype}"

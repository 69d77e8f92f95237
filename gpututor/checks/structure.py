"""Structure: the result has the type, nesting, shapes and dtypes of the reference's result."""

from __future__ import annotations

from typing import Any, Literal

import torch

from gpututor.checks.model import (
    Applies,
    Call,
    Check,
    Finding,
    Reference,
    Run,
    expected_words,
    named,
    run_reference,
    tensors_by_path,
)
from gpututor.checks.trees import first_difference, key_in_words, opened, type_name
from gpututor.errors import CourseError
from gpututor.protocol.values import ObservedTensor, TensorFact

MemoryFormat = Literal["contiguous", "channels_last"]

WHY = "Other code relies on what a function returns: its type, its parts, their shapes and dtypes."


def structure(
    reference: Reference,
    *,
    memory_format: MemoryFormat | None = None,
    name: str = "structure",
    why: str = WHY,
    advice: str = "",
    on: Applies = "everywhere",
) -> Check:
    """The result is built like the reference's, which is called on the inputs in their own dtype.

    With `memory_format` each of its tensors also lies in memory so: row by row (`contiguous`), or with the channels of
    images (4 dimensions) and volumes (5) side by side (`channels_last`); tensors of other dimensions row by row.
    """
    if memory_format not in (None, "contiguous", "channels_last"):
        raise CourseError(f"structure: memory_format={memory_format!r}", 'Use "contiguous" or "channels_last".')

    def find(run: Run) -> Finding | None:
        for call in run.calls:
            wanted = run_reference(reference, call.drawn, in_float64=False)
            difference = first_difference(wanted, call.output, _leaf)
            if difference is not None:
                return Finding(
                    expected=expected_words(difference, describe, wanted),
                    got=f"{named(difference.path)} is {difference.wrong}{run.which(call)}",
                    line=run.line_of(call),
                    advice="Compare what your function returns with the example in the task.",
                )
            if memory_format is not None and (finding := _wrong_layout(run, call, memory_format)):
                return finding
        return None

    return Check(
        name,
        lambda _: "The result has the right type, shape and dtype",
        find,
        (),
        why,
        advice,
        on,
        results_only=True,
        kind="structure",
    )


def _wrong_layout(run: Run, call: Call, wanted: MemoryFormat) -> Finding | None:
    for path, tensor in tensors_by_path(call.output).items():
        fact = tensor.fact
        last = wanted == "channels_last" and len(fact.shape) in (4, 5)
        if not _lies_so(fact, channels_last=last):
            words = "channels_last" if last else "contiguous"
            right = _strides(fact.shape, channels_last=last)
            call_it = ".contiguous()"
            if last:
                call_it = f".to(memory_format=torch.channels_last{'_3d' if len(fact.shape) == 5 else ''})"
            return Finding(
                expected=f"{named(path)} of shape {fact.shape} {words} in memory: strides {right}",
                got=f"strides {fact.strides}{run.which(call)}",
                line=run.line_of(call),
                advice=f"The shape stays as it is: {call_it} changes only how the values lie in memory, which decides"
                " how fast kernels read them.",
            )
    return None


def _lies_so(fact: TensorFact, *, channels_last: bool) -> bool:
    """Strides of dimensions of length 1 mean nothing, and without elements none does."""
    if 0 in fact.shape:
        return True
    right = _strides(fact.shape, channels_last=channels_last)
    return all(
        length == 1 or stride == wanted for length, stride, wanted in zip(fact.shape, fact.strides, right, strict=True)
    )


def _strides(shape: tuple[int, ...], *, channels_last: bool) -> tuple[int, ...]:
    """In elements, for memory without gaps."""
    inner_first = [*reversed(range(len(shape)))]
    if channels_last:
        inner_first = [1, *reversed(range(2, len(shape))), 0]
    strides, step = [0] * len(shape), 1
    for dimension in inner_first:
        strides[dimension] = step
        step *= shape[dimension]
    return tuple(strides)


def describe(value: Any, depth: int = 0) -> str:
    """A value's structure in words: `a dict: 'x' a tensor of shape (2, 3), torch.float32`."""
    kind = type_name(value)
    value = opened(value)
    match value:
        case torch.Tensor() | ObservedTensor():
            shape, dtype = _shape_and_dtype(value)
            return f"a tensor of shape {shape}, {dtype}"
        case dict() if depth < 2:
            parts = [f"{key_in_words(key)} {describe(part, depth + 1)}" for key, part in list(value.items())[:6]]
            more = ", …" if len(value) > 6 else ""
            return f"{kind}{':' if kind == 'a dict' else ' with'} {'; '.join(parts)}{more}"
        case list() | tuple() if depth < 2:
            parts = [describe(part, depth + 1) for part in value[:6]]
            more = ", …" if len(value) > 6 else ""
            return f"{type_name(value)} of {len(value)}: {'; '.join(parts)}{more}"
    if type_name(value) == "a NumPy array":
        return f"a NumPy array of shape {value.shape}, {value.dtype}"
    return type_name(value)


def _leaf(path: str, expected: Any, got: Any) -> str | None:
    if type_name(expected) == "a NumPy array":
        if (expected.shape, expected.dtype) == (got.shape, got.dtype):
            return None
        return f"a NumPy array of shape {got.shape}, {got.dtype} instead of {expected.shape}, {expected.dtype}"
    if not isinstance(expected, torch.Tensor):
        return None
    wanted_shape, wanted_dtype = _shape_and_dtype(expected)
    shape, dtype = _shape_and_dtype(got)
    if shape != wanted_shape:
        return f"a tensor of shape {shape} instead of {wanted_shape}"
    if dtype != wanted_dtype:
        return f"a tensor of {dtype} instead of {wanted_dtype}"
    return None


def _shape_and_dtype(tensor: torch.Tensor | ObservedTensor) -> tuple[tuple[int, ...], str]:
    if isinstance(tensor, ObservedTensor):
        return tensor.fact.shape, f"torch.{tensor.fact.dtype}"
    return tuple(tensor.shape), str(tensor.dtype)

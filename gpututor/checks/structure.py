"""Structure: the result has the type, nesting, shapes and dtypes of the reference's result."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.checks.core import Applies, Check, Finding, Run, named
from gpututor.checks.references import Reference, run_reference
from gpututor.checks.trees import as_tree, first_difference, type_name
from gpututor.wire.observed import ObservedTensor

WHY = "Other code relies on what a function returns: its type, its parts, their shapes and dtypes."


def structure(
    reference: Reference, *, name: str = "structure", why: str = WHY, advice: str = "", on: Applies = "everywhere"
) -> Check:
    """The result is built like the reference's, which is called on the inputs in their own dtype."""

    def find(run: Run) -> Finding | None:
        for call in run.calls:
            wanted = run_reference(reference, call.drawn, in_float64=False)
            difference = first_difference(wanted, call.output, _leaf)
            if difference is not None:
                path, wrong = difference
                return Finding(
                    expected=describe(wanted),
                    got=f"{named(path)} is {wrong}{run.which(call)}",
                    line=run.line_of(call),
                    advice="Compare what your function returns with the example in the task.",
                )
        return None

    return Check(
        name, lambda _: "The result has the right type, shape and dtype", find, (), why, advice, on, results_only=True
    )


def describe(value: Any, depth: int = 0) -> str:
    """A value's structure in words: `a dict: 'x' a tensor of shape (2, 3), torch.float32`."""
    value = as_tree(value)
    match value:
        case torch.Tensor() | ObservedTensor():
            shape, dtype = _shape_and_dtype(value)
            return f"a tensor of shape {shape}, {dtype}"
        case dict() if depth < 2:
            parts = [f"{key!r} {describe(part, depth + 1)}" for key, part in list(value.items())[:6]]
            more = ", …" if len(value) > 6 else ""
            return f"a dict: {'; '.join(parts)}{more}"
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

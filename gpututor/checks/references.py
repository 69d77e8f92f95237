"""Running an author's reference on what was drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gpututor.checks.authors import check_fits, fault_of

Reference = Callable[..., Any]


def run_reference(reference: Reference, drawn: dict[str, Any], *, in_float64: bool) -> Any:
    """`reference(**drawn)` on copies; with `in_float64`, floating tensors are widened first.

    Raises `CourseError` when the reference itself breaks: that is never the learner's fault.
    """
    arguments = {name: _copy(value, in_float64) for name, value in drawn.items()}
    check_fits(reference, f"({', '.join(arguments)})", **arguments)
    try:
        return reference(**arguments)
    except Exception as error:
        raise fault_of(error, lead="the reference failed: ") from error


def _copy(value: Any, in_float64: bool) -> Any:
    match value:
        case torch.Tensor():
            if in_float64 and value.is_floating_point():
                return value.detach().to(torch.float64, copy=True).requires_grad_(value.requires_grad)
            if in_float64 and value.is_complex():
                return value.detach().to(torch.complex128, copy=True).requires_grad_(value.requires_grad)
            return value.detach().clone().requires_grad_(value.requires_grad)
        case list():
            return [_copy(part, in_float64) for part in value]
        case tuple():
            return tuple(_copy(part, in_float64) for part in value)
        case dict():
            return {key: _copy(part, in_float64) for key, part in value.items()}
    return value

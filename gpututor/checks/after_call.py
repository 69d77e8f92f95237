"""After the call: values of the arguments, such as parameters, gradients, buffers and an optimizer's state."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from gpututor.checks.model import OF_RESULTS, Applies, Call, Check, Finding, Reference, Run, in_each_call, run_reference
from gpututor.checks.parity import OwnDtype, check_widening, compare_with_reference
from gpututor.checks.structure import describe
from gpututor.checks.tolerances import Tolerance
from gpututor.checks.trees import leaves_by_path
from gpututor.errors import CourseError
from gpututor.protocol.values import ObservedTensor

WHY = "The result of a training step is what it changes: weights, gradients and the optimizer's state."
ADVICE = "Follow one parameter through your function: what is its value, and its .grad, when the function returns?"
_LISTED = 6


def after_call(
    reference: Reference,
    *,
    times: float = 1.0,
    inside: torch.dtype | None = None,
    name: str = "after_call",
    why: str = WHY,
    advice: str = "",
    on: Applies = "everywhere",
) -> Check:
    """Check that the arguments have the values of the reference, called in float64, when the function has returned.

    The reference returns a dict. Its keys are paths of arguments, such as `model.0.weight`, `model.0.weight.grad` or
    `optimiser.state.0.step`. Its values are tensors, plain values, or None for something absent. A `*` in a path
    matches anything: `{"model.*.grad": None}`.
    """
    check_widening(name, times, inside)
    tolerance = Tolerance(reference, times, inside)

    def find(run: Run, call: Call) -> Finding | None:
        wanted = flatten(run_reference(reference, call.drawn, in_float64=True))
        if not wanted:
            raise CourseError(f"check {name!r}: the reference gives no path", "Return {'x.grad': …}.")
        own = OwnDtype(tolerance, call.drawn)
        for rank in call.ranks or (call,):
            state = flatten(rank.state)
            for path, right in _expand_patterns(wanted, state):
                if (words := _wrong(path, right, state, own)) is not None:
                    expected, got, cause = words
                    return run.finding(call, expected, f"after the call, {path}: {got}", advice=cause or ADVICE)
        return None

    sentence = "The arguments have the right values after the call"
    check = Check(name, lambda _: sentence, in_each_call(find), OF_RESULTS, why, advice, on)
    return replace(check, wants=("arguments",), tolerance=tolerance, kind="values")


def flatten(tree: Any) -> dict[str, Any]:
    """Return tensors and plain values of a tree by path, and each tensor's gradient, or None, at its path + `.grad`."""
    parts: dict[str, Any] = {}
    for path, leaf in leaves_by_path(tree).items():
        match leaf:
            case ObservedTensor():
                parts[path] = leaf.values
                parts.setdefault(f"{path}.grad", None if leaf.grad is None else leaf.grad.values)
            case torch.Tensor():
                parts[path] = leaf.detach()
            case _:
                parts[path] = leaf
    return dict(sorted(parts.items()))


def _expand_patterns(wanted: dict[str, Any], state: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield each path of `state` that a pattern matches, with the wanted value; a pattern without matches as it is."""
    for pattern, right in wanted.items():
        for path in (fnmatch.filter(state, pattern) if "*" in pattern else ()) or [pattern]:
            yield path, right


def _wrong(path: str, right: Any, state: dict[str, Any], own: OwnDtype) -> tuple[str, str, str] | None:
    """Return the expected value, the actual value and a cause in words; None if the values agree."""
    got, argument = state.get(path), path.partition(".")[0]
    siblings = [known for known in state if known.partition(".")[0] == argument]
    if isinstance(right, torch.Tensor) and isinstance(got, torch.Tensor):
        off = compare_with_reference(got, right, own.tolerance.times, own=own, path=path)
        return None if off is None else (f"{path}: {off.expected}", off.got, off.advice)
    if path in state or (right is None and not path.endswith(".grad") and siblings):
        return None if _is_equal(right, got) else (f"{path}: {_describe(right)}", _describe(got), "")
    near = ", ".join(siblings[:_LISTED]) or "no such argument"
    return f"{path}: {_describe(right)}", f"it is missing; there is {near}", ""


def _is_equal(right: Any, got: Any) -> bool:
    if isinstance(right, float) and isinstance(got, float | int):
        return math.isclose(right, got, rel_tol=1e-6)
    return type(right) is type(got) and not isinstance(right, torch.Tensor) and bool(right == got)


def _describe(value: Any) -> str:
    return describe(value) if isinstance(value, torch.Tensor) else repr(value)

"""After the call: values of what was passed, such as parameters, gradients, buffers and an optimizer's state."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Iterator
from typing import Any

import torch

from gpututor.checks.authors import fault_at
from gpututor.checks.model import OF_RESULTS, Applies, Check, Finding, Reference, Run, run_reference
from gpututor.checks.parity import OwnDtype, check_widening, compare_with_reference
from gpututor.checks.structure import describe
from gpututor.checks.tolerances import Tolerance
from gpututor.checks.trees import joined, opened
from gpututor.protocol.values import ObservedModule, ObservedTensor

WHY = "A training step is what it leaves behind: weights, gradients and the optimizer's state."
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
    """What was passed has the values of the reference, which is called in float64, when the function has returned.

    The reference gives a dict: paths of arguments, such as `model.0.weight`, `model.0.weight.grad` or
    `optimiser.state.0.step`, and for each a tensor, a plain value, or None for what is not there. A `*` in a path
    stands for anything: `{"model.*.grad": None}`.
    """
    check_widening(name, times, inside)
    tolerance = Tolerance(reference, times, inside)

    def find(run: Run) -> Finding | None:
        for call in run.calls:
            wanted = flat(run_reference(reference, call.drawn, in_float64=True))
            if not wanted:
                raise fault_at([], f"check {name!r}: the reference gives no path", None, "Return {'x.grad': …}.")
            own = OwnDtype(tolerance, call.drawn)
            for rank in call.ranks or (call,):
                met = flat(rank.state)
                for path, right in _by_path(wanted, met):
                    words = _wrong(path, right, met, own)
                    if words is not None:
                        expected, got, cause = words
                        place = f"after the call, {path}: {got}{run.which(call)}"
                        return Finding(expected, place, run.line_of(call), advice=cause or ADVICE)
        return None

    return Check(
        name,
        lambda _: "What was passed has the right values afterwards",
        find,
        OF_RESULTS,
        why,
        advice,
        on,
        wants=("arguments",),
        tolerance=tolerance,
        kind="values",
    )


def flat(tree: Any) -> dict[str, Any]:
    """Return each tensor and plain value of a tree by its path; a gradient has the path of its tensor and `.grad`.

    An observed tensor without a gradient has None there.
    """
    parts: dict[str, Any] = {}
    waiting: list[tuple[str, Any]] = [("", tree)]
    while waiting:
        path, item = waiting.pop()
        match item:
            case ObservedModule():
                waiting += [(joined(path, name), part) for name, part in item.tensors.items()]
            case torch.nn.Module():
                waiting += [(joined(path, name), part) for name, part in opened(item).items()]
            case dict():
                waiting += [(joined(path, key), part) for key, part in item.items()]
            case list() | tuple():
                waiting += [(joined(path, index), part) for index, part in enumerate(item)]
            case ObservedTensor():
                parts[path] = item.values
                parts.setdefault(f"{path}.grad", None if item.grad is None else item.grad.values)
            case torch.Tensor():
                parts[path] = item.detach()
            case _:
                parts[path] = item
    return dict(sorted(parts.items()))


def _by_path(wanted: dict[str, Any], met: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield what is wanted at each path; a pattern stands for all paths that it fits."""
    for path, right in wanted.items():
        for each in (fnmatch.filter(met, path) if "*" in path else ()) or [path]:
            yield each, right


def _wrong(path: str, right: Any, met: dict[str, Any], own: OwnDtype) -> tuple[str, str, str] | None:
    """Return words for what is expected, what is there, and a cause; None if both agree."""
    got = met.get(path)
    known = path in met or (right is None and not path.endswith(".grad") and _same_argument(path, met))
    if isinstance(right, torch.Tensor) and isinstance(got, torch.Tensor):
        off = compare_with_reference(got, right, own.tolerance.times, own=own, path=path)
        return None if off is None else (f"{path}: {off.expected}", off.got, off.advice)
    if known:
        return None if _equal(right, got) else (f"{path}: {_told(right)}", _told(got), "")
    near = ", ".join(_same_argument(path, met)[:_LISTED]) or "no such argument"
    return f"{path}: {_told(right)}", f"nothing is there; there is {near}", ""


def _same_argument(path: str, met: dict[str, Any]) -> list[str]:
    return [known for known in met if known.partition(".")[0] == path.partition(".")[0]]


def _equal(right: Any, got: Any) -> bool:
    if isinstance(right, float) and isinstance(got, float | int):
        return math.isclose(right, got, rel_tol=1e-6)
    return type(right) is type(got) and not isinstance(right, torch.Tensor) and bool(right == got)


def _told(value: Any) -> str:
    return describe(value) if isinstance(value, torch.Tensor) else repr(value)

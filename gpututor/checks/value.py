"""Values: plain results (numbers, names, devices, nested) compared with what the author expects on this machine."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from gpututor.checks.core import Applies, Check, Finding, Machine, Run, named
from gpututor.checks.trees import as_tree, first_difference
from gpututor.wire.observed import ObservedObject, ObservedTensor

WHY = "The function is only useful when its answer is right on every machine."
RELATIVE = 1e-6


def value(
    expected: Callable[[dict[str, Any], Machine], Any],
    *,
    name: str = "value",
    why: str = WHY,
    advice: str = "",
    on: Applies = "everywhere",
) -> Check:
    """The result equals `expected(drawn, machine)`: types and nesting exactly, floats to 1e-6 relative."""

    def find(run: Run) -> Finding | None:
        for call in run.calls:
            wanted = expected(call.drawn, run.machine)
            difference = first_difference(wanted, call.output, _leaf)
            if difference is not None:
                path, wrong = difference
                whole = f"; the whole result: {shorten(call.output)}" if path else ""
                return Finding(
                    expected=shorten(wanted),
                    got=f"{named(path)} is {wrong}{run.which(call)}{whole}",
                    line=run.line_of(call),
                    advice="Read the task's example again, and print what your function returns.",
                )
        return None

    return Check(name, lambda _: "The answer is right", find, (), why, advice, on, results_only=True)


def shorten(value: Any, limit: int = 300) -> str:
    """A value in one bounded line."""
    text = _plain(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _plain(value: Any) -> str:
    match value:
        case ObservedTensor():
            return f"a tensor of shape {value.fact.shape} on {value.fact.device}"
        case ObservedObject():
            return value.text
        case dict():
            return "{" + ", ".join(f"{key!r}: {_plain(part)}" for key, part in value.items()) + "}"
        case list():
            return "[" + ", ".join(_plain(part) for part in value) + "]"
        case tuple():
            return "(" + ", ".join(_plain(part) for part in value) + ("," if len(value) == 1 else "") + ")"
    tree = as_tree(value)
    return repr(tree)


def _leaf(path: str, expected: Any, got: Any) -> str | None:
    match expected:
        case float():
            same = math.isclose(expected, got, rel_tol=RELATIVE) or (math.isnan(expected) and math.isnan(got))
        case torch.Tensor() if isinstance(got, ObservedTensor):
            same = expected.dtype == got.values.dtype and torch.equal(expected, got.values)
        case _ if type(expected).__name__ == "ndarray":
            same = expected.dtype == got.dtype and expected.shape == got.shape and bool((expected == got).all())
        case _:
            same = bool(expected == got)
    return None if same else f"{shorten(got)} instead of {shorten(expected)}"

"""Values: plain results (numbers, names, devices, nested) compared with what the author expects on this machine."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

from gpututor.checks.author_errors import call_author
from gpututor.checks.model import Applies, Call, Check, Finding, Machine, Run, in_each_call
from gpututor.checks.trees import describe_expected, describe_key, first_difference, part_name, to_tree
from gpututor.protocol.values import ObservedArray, ObservedModule, ObservedObject, ObservedTensor
from gpututor.text import truncate

WHY = "The function is only useful when its answer is right on every machine."
RELATIVE = 1e-6
_SHOWN_ELEMENTS = 1000
"""Elements up to which an array's values are shown instead of its shape."""


def value(
    expected: Callable[[dict[str, Any], Machine], Any],
    *,
    name: str = "value",
    why: str = WHY,
    advice: str = "",
    on: Applies = "everywhere",
) -> Check:
    """Check that the result equals `expected(drawn, machine)`: types and nesting exactly, floats to 1e-6 relative."""

    def find(run: Run, call: Call) -> Finding | None:
        wanted = call_author(expected, call.drawn, run.machine)
        difference = first_difference(wanted, call.output, compare_leaves)
        if difference is None:
            return None
        whole = f"; the whole result: {shorten(call.output)}" if difference.path else ""
        return Finding(
            expected=describe_expected(difference, shorten, wanted),
            got=f"{part_name(difference.path, call.output)} is {difference.wrong}{run.which(call)}{whole}",
            line=run.line_of(call),
            advice="Read the task's example again, and print what your function returns.",
        )

    sentence = "The answer is right"
    return Check(name, lambda _: sentence, in_each_call(find), (), why, advice, on, results_only=True, kind="values")


def shorten(value: Any, limit: int = 300) -> str:
    """Return `value` in one line of at most `limit` characters."""
    pieces: list[str] = []
    missing = limit + 1
    for piece in _pieces(value, limit):  # a value may have 100,000 parts: stop when the line is full
        pieces.append(piece)
        missing -= len(piece)
        if missing <= 0:
            break
    return truncate("".join(pieces), limit)


def _pieces(value: Any, limit: int) -> Iterator[str]:
    match value:
        case ObservedTensor():
            yield f"a tensor of shape {value.fact.shape} on {value.fact.device}"
        case ObservedModule():
            yield f"a module {value.class_name}"
        case torch.nn.Module():
            yield f"a module {type(value).__name__}"
        case ObservedArray() if value.values.numel() > _SHOWN_ELEMENTS:
            yield f"a NumPy array of shape {tuple(value.values.shape)}"
        case ObservedObject():
            yield value.text
        case dict():
            yield "{"
            for number, (key, part) in enumerate(value.items()):
                yield f"{', ' if number else ''}{describe_key(key)}: "
                yield from _pieces(part, limit)
            yield "}"
        case list() | tuple():
            yield "[" if isinstance(value, list) else "("
            for number, part in enumerate(value):
                yield ", " if number else ""
                yield from _pieces(part, limit)
            yield "]" if isinstance(value, list) else ",)" if len(value) == 1 else ")"
        case str():
            yield repr(value[:limit])
        case _:
            yield repr(to_tree(value))


def compare_leaves(_: str, expected: Any, got: Any) -> str | None:
    """Describe how plain values, tensors or arrays differ; None if they are equal."""
    match expected:
        case _ if isinstance(got, ObservedObject):
            same = False  # only its text is known
        case float():
            same = math.isclose(expected, got, rel_tol=RELATIVE) or (math.isnan(expected) and math.isnan(got))
        case torch.Tensor() if isinstance(got, ObservedTensor):
            same = expected.dtype == got.values.dtype and torch.equal(expected, got.values)
        case _ if type(expected).__name__ == "ndarray":
            same = expected.dtype == got.dtype and expected.shape == got.shape and bool((expected == got).all())
        case _:
            same = bool(expected == got)
    return None if same else f"{shorten(got)} instead of {shorten(expected)}"

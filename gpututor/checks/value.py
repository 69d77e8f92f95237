"""Values: plain results (numbers, names, devices, nested) compared with what the author expects on this machine."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

from gpututor.checks.authors import called
from gpututor.checks.model import Applies, Check, Finding, Machine, Run, expected_words, named
from gpututor.checks.trees import first_difference, key_in_words, to_tree
from gpututor.protocol.values import ObservedArray, ObservedModule, ObservedObject, ObservedTensor
from gpututor.text import truncate

WHY = "The function is only useful when its answer is right on every machine."
RELATIVE = 1e-6
_SHOWN_ELEMENTS = 1000
"""Of an array; of a larger one the shape is told."""


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
            wanted = called(expected, call.drawn, run.machine)
            difference = first_difference(wanted, call.output, _leaf)
            if difference is not None:
                whole = f"; the whole result: {shorten(call.output)}" if difference.path else ""
                return Finding(
                    expected=expected_words(difference, shorten, wanted),
                    got=f"{named(difference.path)} is {difference.wrong}{run.which(call)}{whole}",
                    line=run.line_of(call),
                    advice="Read the task's example again, and print what your function returns.",
                )
        return None

    return Check(name, lambda _: "The answer is right", find, (), why, advice, on, results_only=True, kind="values")


def shorten(value: Any, limit: int = 300) -> str:
    """A value in one bounded line."""
    pieces: list[str] = []
    missing = limit + 1
    for piece in _pieces(value, limit):  # no more of them than are shown: a value may have a hundred thousand
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
                yield f"{', ' if number else ''}{key_in_words(key)}: "
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


def _leaf(path: str, expected: Any, got: Any) -> str | None:
    match expected:
        case _ if isinstance(got, ObservedObject):
            same = False  # only its text came
        case float():
            same = math.isclose(expected, got, rel_tol=RELATIVE) or (math.isnan(expected) and math.isnan(got))
        case torch.Tensor() if isinstance(got, ObservedTensor):
            same = expected.dtype == got.values.dtype and torch.equal(expected, got.values)
        case _ if type(expected).__name__ == "ndarray":
            same = expected.dtype == got.dtype and expected.shape == got.shape and bool((expected == got).all())
        case _:
            same = bool(expected == got)
    return None if same else f"{shorten(got)} instead of {shorten(expected)}"

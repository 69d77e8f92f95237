"""Bounds such as "exactly 1" and "at most 3", and their wording."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from gpututor.checks.author_errors import call_author, fault_of
from gpututor.checks.model import Call, Machine, count
from gpututor.errors import CourseError
from gpututor.trace.events import Event, lines_of

Amount = int | tuple[int, int | None] | Callable[[dict[str, Any], Machine], int | tuple[int, int | None]]
"""A number, (low, high), (low, None), or a function of (drawn, machine) that returns one of them."""

NO_LIMIT = sys.maxsize
"""Upper bound for None."""


def parse_bounds(amount: Amount, call: Call, machine: Machine, check: str) -> tuple[int, int]:
    """Return (low, high) for one call; a number is both. Raises `CourseError` for an invalid amount."""
    chosen: Any = amount
    if callable(amount):
        try:
            chosen = call_author(amount, call.drawn, machine)
        except Exception as error:
            raise fault_of(error, lead=f"check {check!r}: the function for its amount failed: ") from error
    pair = chosen if isinstance(chosen, tuple) else (chosen, chosen)
    pair = (pair[0], NO_LIMIT) if len(pair) == 2 and pair[1] is None and pair[0] is not None else pair
    if len(pair) != 2 or not all(type(bound) is int for bound in pair) or not 0 <= pair[0] <= pair[1]:
        raise CourseError(
            f"check {check!r}: {chosen!r} is not an amount",
            "In the exercise's checks.py, give a whole number from 0, (low, high) or (low, None).",
        )
    return pair[0], pair[1]


_TIMES = {1: "once", 2: "twice"}


def format_bounds(low: int, high: int, word: str) -> str:
    """Return `1 copy`, `0 to 3 copies` or `at least 4 copies`."""
    if low == high:
        return count(low, word)
    if high == NO_LIMIT:
        return f"at least {count(low, word)}"
    return f"{low} to {count(high, word)}"


def describe_lines(events: Sequence[Event]) -> str:
    """Return `at line 7 (3 times) and line 9`: the four lines with most events, in the file's order."""
    most = sorted(lines_of(events)[:4])
    lines = [f"line {line}" + (f" ({times:,} times)" if times > 1 else "") for line, times in most]
    return f"at {' and '.join(lines)}" if lines else "outside your file"


def line_with_most(events: Sequence[Event]) -> int | None:
    """Return the line with most events; None if no line is known."""
    lines = lines_of(events)
    return lines[0][0] if lines else None


def describe_names(events: Sequence[Event], most: int = 3) -> str:
    """Return `aten::add 12 times, aten::mul twice`: the most frequent names."""
    counted = Counter(event.name for event in events).most_common()
    words = [f"{name} {_TIMES.get(times, f'{times:,} times')}" for name, times in counted[:most]]
    return ", ".join(words) + (", …" if len(counted) > most else "")

"""Which brackets of a Python text belong together, and which have no partner. Plain functions of lines and colours."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from gpututor.app.widgets.editor.colours import Span

Location = tuple[int, int]
"""Row and column, from 0."""

PARTNERS = {")": "(", "]": "[", "}": "{"}
_BRACKET = re.compile(r"[()\[\]{}]")
_STATEMENT = re.compile(
    r"\s*((?:async\s+)?def|class|return|import|while|try|raise|pass|break|continue|assert|del|global|nonlocal)\b"
)
"""What cannot stand at the start of a line within brackets: one that is still open there has no partner."""


@dataclass
class Brackets:
    """The brackets of a text, those in strings and comments left out."""

    partners: dict[Location, Location] = field(default_factory=dict)
    """From each bracket to the one it belongs to, both ways."""
    unclosed: set[Location] = field(default_factory=set)
    unopened: set[Location] = field(default_factory=set)
    still_open: list[Location] = field(default_factory=list)
    """Those of `unclosed` that are open where the text ends, the outermost first."""


def find_brackets(lines: Sequence[str], spans: Sequence[Sequence[Span]]) -> Brackets:
    """Look at every bracket once. Lines are remembered: 0.3 ms for 200 lines of which one is new."""
    found = Brackets()
    open_: list[tuple[str, Location]] = []
    for row, (line, coloured) in enumerate(zip(lines, spans, strict=True)):
        begins, in_line = _of_line(line, tuple(coloured))
        if begins and open_:
            found.unclosed.update(location for _, location in open_)
            open_.clear()
        for column, bracket in in_line:
            if bracket not in PARTNERS:
                open_.append((bracket, (row, column)))
                continue
            # A closing one of another kind closes what it can: the ones left open in between have no partner.
            if all(kind != PARTNERS[bracket] for kind, _ in open_):
                found.unopened.add((row, column))
                continue
            while open_:
                kind, location = open_.pop()
                if kind == PARTNERS[bracket]:
                    found.partners[location], found.partners[row, column] = (row, column), location
                    break
                found.unclosed.add(location)
    found.still_open = [location for _, location in open_]
    found.unclosed.update(found.still_open)
    return found


@lru_cache(maxsize=4096)
def _of_line(line: str, spans: tuple[Span, ...]) -> tuple[bool, tuple[tuple[int, str], ...]]:
    """Whether a statement begins there, and the brackets with their columns; those of strings and comments left out."""
    found = ((match.start(), match[0]) for match in _BRACKET.finditer(line))
    statement = _STATEMENT.match(line)
    begins = statement is not None and not _in_text(spans, statement.start(1))
    return begins, tuple((column, bracket) for column, bracket in found if not _in_text(spans, column))


def _in_text(spans: Sequence[Span], column: int) -> bool:
    """Whether the character is part of a string or a comment."""
    return any(start <= column < end and kind in ("string", "comment") for start, end, kind in spans)

"""Which brackets of a Python text belong together, and which have no partner. Plain functions of lines and colours."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from gpututor.app.widgets.editor.colours import Span

Location = tuple[int, int]
"""Row and column, from 0."""

PARTNERS = {")": "(", "]": "[", "}": "{"}
_BRACKET = re.compile(r"[()\[\]{}]")
_STATEMENT = re.compile(
    r"\s*(?:(?:async\s+)?def|class|return|import|while|try|raise|pass|break|continue|assert|del|global|nonlocal)\b"
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
    """Look at every bracket once (0.2 ms for 200 lines)."""
    found = Brackets()
    open_: list[tuple[str, Location]] = []
    for row, line in enumerate(lines):
        if open_ and _STATEMENT.match(line) and not _in_text(spans[row], len(line) - len(line.lstrip())):
            found.unclosed.update(location for _, location in open_)
            open_.clear()
        for match in _BRACKET.finditer(line):
            column, bracket = match.start(), match[0]
            if _in_text(spans[row], column):
                continue
            if bracket not in PARTNERS:
                open_.append((bracket, (row, column)))
                continue
            # A closing one of another kind closes what it can: the ones left open in between have no partner.
            kinds = [kind for kind, _ in open_]
            if PARTNERS[bracket] not in kinds:
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


def _in_text(spans: Sequence[Span], column: int) -> bool:
    """Whether the character is part of a string or a comment."""
    return any(start <= column < end and kind in ("string", "comment") for start, end, kind in spans)

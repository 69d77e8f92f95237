"""Folding of code lines that are too long for a pane."""

from __future__ import annotations

import itertools
import re

from rich.cells import cell_len, chop_cells

FOLD = "↪ "
"""Mark before the rest of a folded line."""
LEAST_WIDTH = 6
_BREAKS = (
    re.compile(r"(?<=\S)\s+(?=\S)"),
    re.compile(r"(?<=[\[({,])(?=\S)"),
    re.compile(r"(?=\.[^\W\d])"),
)
"""Places to break a long line, the best first: between words, after a bracket or comma, before an attribute."""


def fold(text: str, width: int) -> list[tuple[str, str]]:
    """Return the parts of a line in rows of at most `width` cells, each after its indent and mark."""
    if cell_len(text) <= width or width < LEAST_WIDTH:
        return [("", text)]
    indent = min(len(text) - len(text.lstrip(" ")), max(0, width // 2 - len(FOLD)))
    parts: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        ahead = " " * indent + FOLD if parts else ""
        part = _first_words(text[at : at + 2 * width], width - len(ahead))
        parts.append((ahead, part))
        at += len(part)
    return parts


def _first_words(text: str, width: int) -> str:
    """Return as much of the text as fits, and the blanks after it; broken in its second half if possible."""
    if cell_len(text) <= width:
        return text
    most = len(chop_cells(text, width)[0])
    for least, pattern in itertools.product((most // 2, 0), _BREAKS):
        ends = [match.end() for match in pattern.finditer(text) if least < match.start() <= most]
        if ends:
            return text[: ends[-1]]
    return text[:most]

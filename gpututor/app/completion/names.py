"""Names to complete from the file itself: always there, at once."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Sequence

_NAME = re.compile(r"(?<!\w)(?!\d)\w+")
_ATTRIBUTE = re.compile(r"\.\s*((?!\d)\w+)")
_AFTER_DOT = re.compile(r"\.\s*\w*$")


def file_names(lines: Sequence[str], row: int, column: int) -> list[str]:
    """What can stand at a place: after a dot the file's attributes, else its names, the keywords and the builtins."""
    here = lines[row][:column]
    pattern = _ATTRIBUTE if _AFTER_DOT.search(here) else _NAME
    found: set[str] = set()
    for at, line in enumerate(lines):
        for match in pattern.finditer(line):
            name = match[1] if pattern is _ATTRIBUTE else match[0]
            # The word that is being written is no answer.
            if not (at == row and match.start() <= column <= match.end()):
                found.add(name)
    if pattern is _ATTRIBUTE:
        return _sorted(found)
    found -= set(keyword.kwlist)
    public = {name for name in dir(builtins) if not name.startswith("_")} - found - set(keyword.kwlist)
    return [*_sorted(found), *_sorted(set(keyword.kwlist)), *_sorted(public)]


def _sorted(names: set[str]) -> list[str]:
    return sorted(names, key=lambda name: (name.startswith("_"), name.lower(), name))

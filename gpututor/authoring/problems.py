"""What the gate has to say: the file, the line or key, what is not so, and how to mend it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpututor.errors import TutorError


@dataclass(frozen=True)
class Problem:
    """One thing that is not so, or, as a note, that an author may want to know."""

    file: Path
    problem: str
    advice: str
    """How to mend it."""
    line: int | None = None
    key: str = ""
    """Of a manifest, as it would be written."""
    details: tuple[str, ...] = ()
    """What was found, a line each."""
    is_note: bool = False
    """It makes nothing red."""

    def title(self, base: Path) -> str:
        """`05_keep/01_one/task.md:12: wider than 80 columns`, with the file seen from `base`."""
        place = f":{self.line}" if self.line is not None else f": {self.key}" if self.key else ""
        return f"{seen_from(self.file, base)}{place}: {self.problem}"

    def to_json(self) -> dict[str, Any]:
        return {
            "file": str(self.file),
            "line": self.line,
            "key": self.key,
            "problem": self.problem,
            "advice": self.advice,
            "details": list(self.details),
        }


def from_error(error: TutorError, file: Path) -> Problem:
    """Return the same in the gate's words. A title that begins with a path is about that file, any other about `file`.

    Each text may go on over several lines: they become details.
    """
    title, *more = error.title.splitlines() or [""]
    advice, *details = error.advice.splitlines() or [""]
    begin, colon, rest = title.partition(": ")
    path, _, line = begin.rpartition(":")
    if colon and line.isdigit() and os.path.isabs(path):
        return Problem(Path(path), rest, advice, line=int(line), details=(*more, *details))
    if colon and os.path.isabs(begin):
        return Problem(Path(begin), rest, advice, details=(*more, *details))
    return Problem(file, title, advice, details=(*more, *details))


def seen_from(path: Path, base: Path) -> str:
    """The shorter way to name `path`: below `base`, or whole."""
    return str(path.relative_to(base)) if path.is_relative_to(base) and path != base else str(path)

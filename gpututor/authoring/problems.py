"""Problems that `gpututor verify` finds: file, line or key, description, and advice."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpututor.errors import TutorError


@dataclass(frozen=True)
class Problem:
    """A problem of an exercise or lesson; as a note, something that its author may want to know."""

    file: Path
    problem: str
    advice: str
    line: int | None = None
    key: str = ""
    """Key of a manifest, as written there."""
    details: tuple[str, ...] = ()
    is_note: bool = False
    """True if it does not make the exercise fail."""

    def title(self, base: Path) -> str:
        """Return `05_keep/01_one/task.md:12: wider than 80 columns`, with the path relative to `base`."""
        place = f":{self.line}" if self.line is not None else f": {self.key}" if self.key else ""
        return f"{relative_path(self.file, base)}{place}: {self.problem}"

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
    """Return an error as a problem of the file that its title names, else of `file`; further lines become details."""
    title, *more = error.title.splitlines() or [""]
    advice, *details = error.advice.splitlines() or [""]
    begin, colon, rest = title.partition(": ")
    path, _, line = begin.rpartition(":")
    number = None
    if colon and line.isdigit() and os.path.isabs(path):
        file, title, number = Path(path), rest, int(line)
    elif colon and os.path.isabs(begin):
        file, title = Path(begin), rest
    return Problem(file, title, advice, number, details=(*more, *details))


def relative_path(path: Path, base: Path) -> str:
    """Return `path` relative to `base` if it is below, else the whole path."""
    return str(path.relative_to(base)) if path.is_relative_to(base) and path != base else str(path)

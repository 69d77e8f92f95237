"""Errors for mistakes in a class's TOML file, each with its line and key."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from gpututor.errors import UsageError
from gpututor.toml_schema import Mistake, unreadable

_LINE = re.compile(r"\(at line (\d+), column \d+\)")
_DATE = re.compile(r"=\s*(\d{4}-\d.*?)\s*(#|$)")


def syntax_error(path: Path, text: str, error: Exception) -> UsageError:
    """Return the error for a file that cannot be read as TOML. `text`: empty if the file itself cannot be read."""
    place, lines = _LINE.search(str(error)), text.split("\n")
    if place and int(place[1]) <= len(lines) and (date := _DATE.search(lines[int(place[1]) - 1])):
        title = f"{path}, line {place[1]}: {date[1]} is not a valid date and time."
        return UsageError(title, "Write a date that exists and a time with seconds, as 2026-03-01T23:59:00+01:00.")
    problem = unreadable(path, error)
    return UsageError(problem.title, problem.advice)


def mistakes_error(path: Path, text: str, mistakes: Sequence[Mistake]) -> UsageError:
    """Make one error for all mistakes: `classroom.toml, line 12: exercises.'a/b'.weight: expected …`."""
    lines = {mistake: line_of(text, _path_of(mistake.key)) for mistake in mistakes}
    mistakes = sorted(mistakes, key=lambda mistake: lines[mistake] or 0)
    titles = [
        f"{path}{f', line {line}' if (line := lines[mistake]) is not None else ''}: {mistake.key}: {mistake.problem}"
        for mistake in mistakes
    ]
    if len(titles) == 1:
        return UsageError(titles[0], mistakes[0].advice)
    pairs = zip(titles, mistakes, strict=True)
    title = "\n".join(f"{title}\n    {mistake.advice}".rstrip() for title, mistake in pairs)
    return UsageError(title, "Fix them, then try again: nothing was written.")


_PART = re.compile(r"'([^']*)'|\"([^\"]*)\"|([A-Za-z0-9_-]+)|\[(\d+)\]")
_HEADER = re.compile(r"\s*(\[\[?)([^\[\]]+)\]\]?\s*(#.*)?")
_KEY = re.compile(r"\s*((?:[\w-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*(?:[\w-]+|\"[^\"]*\"|'[^']*'))*)\s*=")


def _path_of(key: str) -> tuple[str | int, ...]:
    """Split `exercises.'a/b'.due` or `extension[1].due` into parts."""
    groups = [match.groups() for match in _PART.finditer(key)]
    return tuple(
        int(index) if index is not None else single or double or bare for single, double, bare, index in groups
    )


def line_of(text: str, path: tuple[str | int, ...]) -> int | None:
    """Return the line, from 1, of the value at `path`, or of the innermost table that contains it; None without one."""
    best, line, table = 0, None, tuple[str | int, ...]()
    counts: dict[tuple[str | int, ...], int] = {}
    for number, words in enumerate(text.split("\n"), 1):
        if header := _HEADER.fullmatch(words.rstrip("\r")):
            table = here = _path_of(header[2])
            if header[1] == "[[":
                counts[here] = counts.get(here, -1) + 1
                table = here = (*here, counts[here])
        elif key := _KEY.match(words):
            here = (*table, *_path_of(key[1]))
        else:
            continue
        shared = min(len(here), len(path))
        if path[:shared] == here[:shared] and shared > best:
            best, line = shared, number
    return line

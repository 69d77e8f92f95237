"""The history of a class: marks by hand and accepted regrades, with authors, dates and reasons.

Each entry is a file, `000001.json`, which is written whole and never changes. So several people can add entries at
once, and a crash loses none. The journal has the gradings themselves.
"""

from __future__ import annotations

import getpass
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from gpututor.classroom.folder import ClassFolder
from gpututor.errors import UsageError
from gpututor.files import create_atomically, ordinary, sync_folder
from gpututor.json_dataclasses import read

VERSION = 1
LONGEST_WHY = 2000
"""Characters of a reason."""
LONGEST_BY = 100
"""Characters of an author's name."""
_NAME = re.compile(r"(\d{6,})\.json")


class HistoryEvent(StrEnum):
    """Kind of an entry."""

    MARKED = "marked"
    CLEARED = "cleared"
    """The mark by hand no longer counts."""
    REGRADED = "regraded"


@dataclass(frozen=True)
class HistoryEntry:
    """A decision of an instructor."""

    event: HistoryEvent
    student: str
    """A `Student.id`; for a regrade, the student whose submission was graded again."""
    exercise: str
    by: str
    why: str
    """The reason, one line; empty if none was given."""
    at: str
    """ISO 8601, UTC."""
    points: float | None = None
    """The mark by hand."""
    before: str = ""
    """The result before a regrade, or the mark before a mark by hand."""
    after: str = ""
    """The result of a regrade."""
    submission: str = ""
    """The SHA-256 of a text that was graded again."""
    version: int = VERSION

    @property
    def day(self) -> str:
        """The date, such as `2026-03-01`, in UTC."""
        return self.at[:10]


def now() -> str:
    """Return the time for an entry."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def author(given: str | None) -> str:
    """Return the author's name: `given`, else the user's. Raises `UsageError` without a valid one."""
    if given is None:
        try:
            given = getpass.getuser()
        except (OSError, KeyError) as error:
            raise UsageError("This user has no name.", "Name yourself with --by, or set USER.") from error
    return _line(given, LONGEST_BY, "--by")


def reason(given: str) -> str:
    """Return a reason as one line. Raises `UsageError` for an empty or long one."""
    return _line(given, LONGEST_WHY, "--why")


def _line(given: str, most: int, option: str) -> str:
    line = " ".join(given.split())
    if not line or len(line) > most or not line.isprintable():
        raise UsageError(f"{option} needs a text of 1 to {most} printable characters.", "Write it in quotes.")
    return line


def add_entry(folder: ClassFolder, entry: HistoryEntry) -> Path:
    """Write an entry so that it survives a power cut; return its file. Raises `UsageError`."""
    content = json.dumps(asdict(entry), indent=1) + "\n"
    try:
        number = max((number for number, _ in _files(folder)), default=0) + 1
        while not create_atomically(path := folder.history / f"{number:06}.json", content):
            number += 1
        sync_folder(folder.history)
        sync_folder(folder.folder)
    except OSError as error:
        advice = "Free some space, or give yourself write permission."
        raise UsageError(f"{folder.history}: cannot be written ({error.strerror})", advice) from error
    return path


def read_history(folder: ClassFolder) -> tuple[HistoryEntry, ...]:
    """Return all entries in their order. Raises `UsageError` for a broken one: a mark must not vanish silently."""
    entries = []
    for _, path in _files(folder):
        try:
            with open(path, encoding="utf-8", opener=ordinary) as stream:
                entries.append(read(HistoryEntry, json.load(stream), ""))
        except (OSError, ValueError, RecursionError) as error:
            advice = "Restore the file from a copy, or move it away: then its decision no longer counts."
            raise UsageError(f"{path}: {error}", advice) from error
    return tuple(entries)


def _files(folder: ClassFolder) -> list[tuple[int, Path]]:
    matches = ((_NAME.fullmatch(path.name), path) for path in folder.history.glob("*.json"))
    return sorted((int(match[1]), path) for match, path in matches if match)


def with_class_ids(entries: Iterable[HistoryEntry], class_ids: Mapping[str, str]) -> tuple[HistoryEntry, ...]:
    """Return entries with the ids that students have now. A student had the roster's id before the first upload.

    `class_ids`: ids of the class by other ids.
    """
    return tuple(replace(entry, student=class_ids.get(entry.student, entry.student)) for entry in entries)


def marks_by_hand(entries: Sequence[HistoryEntry]) -> dict[tuple[str, str], HistoryEntry]:
    """Return the marks that count, by student and exercise: the last one of each, unless it was cleared."""
    marks: dict[tuple[str, str], HistoryEntry] = {}
    for entry in entries:
        if entry.event is HistoryEvent.MARKED:
            marks[entry.student, entry.exercise] = entry
        elif entry.event is HistoryEvent.CLEARED:
            marks.pop((entry.student, entry.exercise), None)
    return marks

"""Gradescope's submission metadata: a bounded part of YAML, and its times.

Every value is taken as the text that stands there: `0123` is a student's number, and no octal one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, BinaryIO

from gpututor.errors import UsageError

_NANOSECONDS = re.compile(r"(\.\d{6})\d+")


def as_utc(text: str) -> str:
    """`2026-04-26 17:34:00.861687000 Z` as ISO 8601, in UTC; empty for what is no time, or has no zone."""
    plain = _NANOSECONDS.sub(r"\1", text.strip()).replace(" Z", "+00:00").replace(" UTC", "+00:00")
    plain = re.sub(r" ([+-]\d\d:?\d\d)$", r"\1", plain)
    try:
        when = datetime.fromisoformat(plain)
        return when.astimezone(UTC).isoformat(timespec="seconds") if when.tzinfo else ""
    except (ValueError, OverflowError):
        return ""


LARGEST = 256 << 20
MOST_SUBMISSIONS = 100_000
MOST_ALIASED = 1_000_000
"""Lists, tables and texts that aliases stand for, counted each time."""
MOST_NESTED = 64
_WANTED = ("submitters", "created_at", "history")
_RESULTS = "results"
_ADVICE = "Download the submissions from Gradescope again."


@dataclass(frozen=True)
class Submitter:
    name: str = ""
    sid: str = ""
    """The student's number, as the instructor gave it to Gradescope."""
    email: str = ""


@dataclass(frozen=True)
class Submission:
    submitters: tuple[Submitter, ...]
    created_at: str
    """ISO 8601, UTC; empty where it is not said."""
    earlier: int
    """How many submissions came before, and are not in the export."""
    group: str
    """The name of the latest one's folder: whoever has no number and no address is known by it."""


class _Bad(Exception):
    """The file is not what Gradescope writes."""


def submissions_of(stream: BinaryIO, folders: set[str]) -> dict[str, Submission]:
    """The submissions by the names of their folders, the earlier ones too where they are among `folders`.

    Raises `UsageError` for a file that cannot be read as what Gradescope writes.
    """
    import yaml

    try:
        found: dict[str, Submission] = {}
        for folder, values in _tables(stream):
            found.update(_with_earlier(folder, values, folders))
            if len(found) > MOST_SUBMISSIONS:
                raise _Bad(f"more than {MOST_SUBMISSIONS} submissions")
        return found
    except yaml.MarkedYAMLError as error:
        where = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise UsageError(f"submission_metadata.yml: {where}{error.problem or 'no YAML'}", _ADVICE) from error
    except (yaml.YAMLError, _Bad, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UsageError(f"submission_metadata.yml: {reason}", _ADVICE) from error


def _with_earlier(folder: str, values: Mapping[str, Any], folders: set[str]) -> dict[str, Submission]:
    submitters = tuple(_submitter(one) for one in _list(values.get(":submitters")) if isinstance(one, dict))
    history = [one for one in _list(values.get(":history")) if isinstance(one, dict)]
    here = {f"submission_{_text(one, ':id')}": one for one in history} if history else {}
    here = {name: one for name, one in here.items() if name in folders and name != folder}
    found = {name: Submission(submitters, as_utc(_text(one, ":created_at")), 0, folder) for name, one in here.items()}
    found[folder] = Submission(submitters, as_utc(_text(values, ":created_at")), len(history) - len(here), folder)
    return found


def _submitter(values: Mapping[str, Any]) -> Submitter:
    return Submitter(*(_text(values, key).strip() for key in (":name", ":sid", ":email")))


def _text(values: Mapping[str, Any], key: str) -> str:
    """With Ruby's colon before the key, or without."""
    value = values.get(key, values.get(key.removeprefix(":")))
    return value if isinstance(value, str) and value not in ("~", "null") else ""


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _tables(stream: BinaryIO) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each submission's folder, with those of its values that are wanted."""
    reader = _Reader(stream)
    reader.expect("StreamStartEvent")
    reader.expect("DocumentStartEvent")
    reader.expect("MappingStartEvent")
    while (folder := reader.value(_Reader.anything)) is not _END:
        values = reader.value(_is_wanted)
        if isinstance(folder, str) and isinstance(values, dict):
            yield folder, {str(key) if str(key).startswith(":") else f":{key}": values[key] for key in values}


def _is_wanted(depth: int, key: str) -> bool:
    name = key.removeprefix(":")
    return name in _WANTED if depth == 1 else name != _RESULTS


_END: Any = object()


class _Reader:
    """Makes plain values of the events of a YAML parser, of no more than is wanted."""

    def __init__(self, stream: BinaryIO) -> None:
        import yaml

        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        self._events: Iterator[Any] = yaml.parse(_Bounded(stream), Loader=loader)
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._values = 0
        self._aliased = 0

    @staticmethod
    def anything(depth: int, key: str) -> bool:
        return True

    def expect(self, kind: str) -> None:
        event = next(self._events, None)
        if type(event).__name__ != kind:
            raise _Bad("it is no table of submissions")

    def value(self, is_wanted: Callable[[int, str], bool], depth: int = 0) -> Any:
        """The next value; `_END` at the end of the list or table around it."""
        event: Any = next(self._events, None)
        kind = type(event).__name__
        if kind in ("MappingEndEvent", "SequenceEndEvent"):
            return _END
        if depth > MOST_NESTED:
            raise _Bad(f"nested more than {MOST_NESTED} deep")
        before = self._values
        self._values += 1
        if kind == "ScalarEvent":
            made: Any = event.value
        elif kind == "AliasEvent":
            made, size = self._anchors.get(event.anchor, (None, 0))
            if size == 0:
                raise _Bad(f"an alias of nothing, or of what it stands in: *{event.anchor[:40]}")
            self._values += size
            self._aliased += size
            if self._aliased > MOST_ALIASED:
                raise _Bad("aliases of aliases stand for too much")
            return made
        elif kind == "SequenceStartEvent":
            made = []
            while (item := self.value(is_wanted, depth + 1)) is not _END:
                made.append(item)
        elif kind == "MappingStartEvent":
            made = {}
            while (key := self.value(self.anything, depth + 1)) is not _END:
                name = key if isinstance(key, str) else ""
                item = self.value(is_wanted, depth + 1)
                if is_wanted(depth + 1, name):
                    made[name] = item
        else:
            raise _Bad("it ends too early")
        if event.anchor is not None:
            self._anchors[event.anchor] = made, self._values - before
        return made


class _Bounded:
    """A stream that ends with an error where it is too long."""

    def __init__(self, inner: BinaryIO) -> None:
        self._inner = inner
        self._left = LARGEST

    def read(self, size: int = -1) -> bytes:
        content = self._inner.read(size if 0 <= size <= 1 << 20 else 1 << 20)
        self._left -= len(content)
        if self._left < 0:
            raise _Bad(f"larger than {LARGEST >> 20} MiB")
        return content

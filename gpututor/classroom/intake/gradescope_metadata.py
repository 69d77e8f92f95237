"""Gradescope's submission metadata: a bounded part of YAML, and its times.

Every value is read as text: `0123` is a student's number, not an octal one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import IO, Any

from gpututor.errors import UsageError

LARGEST = 256 << 20
MOST_SUBMISSIONS = 100_000
MOST_ALIASED = 1_000_000
"""Lists, tables and texts behind aliases, counted for each alias."""
MOST_NESTED = 64
_SUBMISSION_KEYS = ("submitters", "created_at", "history")
_ADVICE = "Download the submissions from Gradescope again."
_NANOSECONDS = re.compile(r"(\.\d{6})\d+")


def as_utc(text: str) -> str:
    """Convert `2026-04-26 17:34:00.861687000 Z` to ISO 8601, in UTC; empty if it is not a time, or has no zone."""
    plain = _NANOSECONDS.sub(r"\1", text.strip()).replace(" Z", "+00:00").replace(" UTC", "+00:00")
    plain = re.sub(r" ([+-]\d\d:?\d\d)$", r"\1", plain)
    try:
        when = datetime.fromisoformat(plain)
        return when.astimezone(UTC).isoformat(timespec="seconds") if when.tzinfo else ""
    except (ValueError, OverflowError):
        return ""


@dataclass(frozen=True)
class Submitter:
    name: str = ""
    sid: str = ""
    """Student's number, as the instructor entered it in Gradescope."""
    email: str = ""


@dataclass(frozen=True)
class GradescopeSubmission:
    submitters: tuple[Submitter, ...]
    created_at: str
    """ISO 8601, UTC; empty if unknown."""
    earlier: int
    """Number of earlier submissions that are not in the export."""
    group: str
    """Folder of the latest submission. It identifies people without a number and an address."""


class _InvalidMetadata(Exception):
    """The file is not as Gradescope writes it; the text gives the reason."""


def submissions_of(stream: IO[bytes], folders: set[str]) -> dict[str, GradescopeSubmission]:
    """Read the submissions by folder, with the earlier ones in `folders`. Raises `UsageError` for a malformed file."""
    import yaml

    try:
        submissions: dict[str, GradescopeSubmission] = {}
        for folder, values in _tables(stream):
            submissions.update(_with_earlier(folder, values, folders))
            if len(submissions) > MOST_SUBMISSIONS:
                raise _InvalidMetadata(f"more than {MOST_SUBMISSIONS} submissions")
        return submissions
    except yaml.MarkedYAMLError as error:
        where = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise UsageError(f"submission_metadata.yml: {where}{error.problem or 'not YAML'}", _ADVICE) from error
    except (yaml.YAMLError, _InvalidMetadata, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UsageError(f"submission_metadata.yml: {reason}", _ADVICE) from error


def _with_earlier(folder: str, values: Mapping[str, Any], folders: set[str]) -> dict[str, GradescopeSubmission]:
    submitters = tuple(
        Submitter(*(_text(table, key).strip() for key in ("name", "sid", "email")))
        for table in _tables_in(values, "submitters")
    )
    submissions: dict[str, GradescopeSubmission] = {}
    history = [(as_utc(_text(table, "created_at")), _text(table, "id")) for table in _tables_in(values, "history")]
    own = as_utc(_text(values, "created_at"))
    missing = 0
    for created_at, id in sorted(history, key=lambda entry: entry[0]):  # a stable order without times
        name = f"submission_{id}"
        if name in folders and name != folder:
            submissions[name] = GradescopeSubmission(submitters, created_at, missing, folder)
        elif not own or created_at < own:  # later ones exist if an older submission is active
            missing += 1
    submissions[folder] = GradescopeSubmission(submitters, own, missing, folder)
    return submissions


def _text(values: Mapping[str, Any], key: str) -> str:
    value = values.get(key)
    return value if isinstance(value, str) and value not in ("~", "null") else ""


def _tables_in(values: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    items = values.get(key)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _tables(stream: IO[bytes]) -> Iterator[tuple[str, dict[str, Any]]]:
    reader = _Reader(stream)
    for kind in ("StreamStartEvent", "DocumentStartEvent", "MappingStartEvent"):
        reader.expect(kind)
    while (folder := reader.value()) is not _END:
        values = reader.value(is_submission=True)
        if isinstance(folder, str) and isinstance(values, dict):
            yield folder, values


_END: Any = object()


class _Reader:
    """A reader that makes plain values of a YAML parser's events, and skips unneeded ones."""

    def __init__(self, stream: IO[bytes]) -> None:
        import yaml

        content = stream.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise _InvalidMetadata(f"larger than {LARGEST >> 20} MiB")
        self._events: Iterator[Any] = yaml.parse(content, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._values = 0
        self._aliased = 0

    def expect(self, kind: str) -> None:
        if type(next(self._events, None)).__name__ != kind:
            raise _InvalidMetadata("it is not a table of submissions")

    def value(self, depth: int = 0, *, is_submission: bool = False) -> Any:
        """Return the next value; `_END` at the end of the enclosing list or table.

        Keys of tables lose Ruby's colon. A table keeps no results, and of a submission only `_SUBMISSION_KEYS`.
        """
        event: Any = next(self._events, None)
        kind = type(event).__name__
        if kind in ("MappingEndEvent", "SequenceEndEvent"):
            return _END
        if depth > MOST_NESTED:
            raise _InvalidMetadata(f"nested more than {MOST_NESTED} deep")
        before = self._values
        self._values += 1
        value: Any
        if kind == "ScalarEvent":
            value = event.value
        elif kind == "AliasEvent":
            return self._alias(event.anchor)
        elif kind == "SequenceStartEvent":
            value = list(iter(lambda: self.value(depth + 1), _END))
        elif kind == "MappingStartEvent":
            value = {}
            while (key := self.value(depth + 1)) is not _END:
                name = key.removeprefix(":") if isinstance(key, str) else ""
                item = self.value(depth + 1)
                if name in _SUBMISSION_KEYS if is_submission else name != "results":
                    value[name] = item
        else:
            raise _InvalidMetadata("it ends too early")
        if event.anchor is not None:
            self._anchors[event.anchor] = value, self._values - before
        return value

    def _alias(self, anchor: str) -> Any:
        value, size = self._anchors.get(anchor, (None, 0))
        if size == 0:
            raise _InvalidMetadata(f"an alias of a missing or enclosing anchor: *{anchor[:40]}")
        self._values += size
        self._aliased += size
        if self._aliased > MOST_ALIASED:
            raise _InvalidMetadata("aliases of aliases are too large")
        return value

"""Reading `classroom.toml`: which keys there are, and what is wrong with one. docs/classroom/rules.md explains them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from datetime import tzinfo
from pathlib import Path
from types import MappingProxyType
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from gpututor.classroom.check_names import OWN
from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.handed_in import Class
from gpututor.classroom.rules import ExerciseRules, Extension, LatePolicy, Rules
from gpututor.course.catalogue import load_course
from gpututor.course.exercise import Course
from gpututor.course.keys import Key, Mistake, nearest, text_of, unreadable, values_of
from gpututor.errors import CourseError, UsageError

MOST_POINTS = 10_000
_LONGEST = 200
"""Characters of a name."""


def rules_for(folder: ClassFolder, path: Path | None = None) -> Rules:
    """The rules in `path`, else those in the folder of the class, else the defaults.

    Raises one `UsageError` that lists all mistakes.
    """
    if path is None and not folder.rules_file.exists():
        return Rules()
    class_ = folder.read_class()
    course = course_of(class_)
    keys = [exercise.key for exercise in course.exercises] if course is not None else []
    return read_rules(path or folder.rules_file, [*keys, *(one.exercise for one in class_.handed_in)])


def course_of(class_: Class) -> Course | None:
    """None where the course's folder is gone."""
    try:
        return load_course(Path(class_.course))
    except CourseError:
        return None


def read_rules(path: Path, exercises: Sequence[str]) -> Rules:
    """The rules in the file at `path`, which may name `exercises` by their keys.

    Raises one `UsageError` that lists all mistakes.
    """
    text = ""
    try:
        text = text_of(path)
        document = tomllib.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        told = unreadable(path, error)
        raise UsageError(told.title, told.advice) from error
    mistakes: list[Mistake] = []
    known = tuple(dict.fromkeys(exercises))
    values = values_of(document, _keys(document, known), mistakes)
    if not mistakes:
        mistakes += _mistakes_between(values, known)
    zone = _zone(values.get("time_zone"), mistakes)
    for written, table in _with_dates(values):
        if (due := table.get("due")) is not None and due.tzinfo is None:
            if values.get("time_zone") is None:
                mistakes.append(Mistake(f"{written}due", "it has no time zone", _NO_ZONE))
            table["due"] = due.replace(tzinfo=zone)
    if mistakes:
        raise mistaken(path, text, mistakes)
    return _rules(path, text, values, frozenset(document.get("exercises", ())))


_NO_ZONE = 'Write it as 2026-03-01T23:59:00+01:00, or add time_zone = "Europe/Berlin" at the top.'


def mistaken(path: Path, text: str, mistakes: Sequence[Mistake]) -> UsageError:
    """One error for all mistakes in the rules, each with the line where it stands."""
    mistakes = sorted(mistakes, key=lambda mistake: line_of(text, _path_of(mistake.key)) or 0)
    titles = [title_of(path, text, mistake) for mistake in mistakes]
    if len(titles) == 1:
        return UsageError(titles[0], mistakes[0].advice)
    told = [f"{title}\n    {mistake.advice}".rstrip() for title, mistake in zip(titles, mistakes, strict=True)]
    return UsageError("\n".join(told), "Mend them, then try again: nothing was written.")


def title_of(path: Path, text: str, mistake: Mistake) -> str:
    """`classroom.toml, line 12: exercises.'a/b'.weight: expected …`"""
    line = line_of(text, _path_of(mistake.key))
    where = f"{path}, line {line}" if line is not None else str(path)
    return f"{where}: {mistake.key}: {mistake.problem}"


def _keys(document: dict[str, Any], exercises: Sequence[str]) -> tuple[Key, ...]:
    """What may stand in the file. The names of checks are free here: reports tell which ones there are."""
    tables = document.get("exercises")
    each = tuple(
        Key(name, "table", default={}, keys=_exercise_keys(tables.get(name) if isinstance(tables, dict) else None))
        for name in exercises
    )
    return (
        Key("attempts", "choice", default="best", choices=("best", "last")),
        Key("assigned", "lines", default=(), most=_LONGEST),
        Key("drop", "lines", default=(), most=_LONGEST),
        Key("drop_lowest", "whole", default=0, most=100),
        Key("hidden", "lines", default=(), most=_LONGEST),
        Key("hints", "whole", default=0, most=100),
        Key("due", "moment", default=None),
        Key("time_zone", "line", default=None, most=60),
        Key("decimals", "whole", default=2, most=6),
        Key("rounding", "choice", default="nearest", choices=("nearest", "up", "down")),
        Key("scale", "number", default=None, least=0.01, most=MOST_POINTS),
        Key("late", "table", default={}, keys=_LATE_KEYS),
        Key("exercises", "table", default={}, keys=each),
        Key("extension", "tables", default=(), most=10_000, keys=_EXTENSION_KEYS),
    )


_POLICY = LatePolicy()
_LATE_KEYS = (
    Key("per_cent", "number", default=_POLICY.per_cent, most=100),
    Key("per", "choice", default=_POLICY.per, choices=("day", "hour")),
    Key("taken_from", "choice", default=_POLICY.taken_from, choices=("earned", "possible")),
    Key("grace_minutes", "number", default=_POLICY.grace_minutes, most=7 * 24 * 60),
    Key("most_per_cent", "number", default=_POLICY.most_per_cent, most=100),
    Key("reject_after_hours", "number", default=None, most=366 * 24),
)


def _exercise_keys(table: object) -> tuple[Key, ...]:
    points = table.get("points") if isinstance(table, dict) else None
    names = tuple(points) if isinstance(points, dict) else ()
    return (
        Key("points", "table", default={}, keys=tuple(Key(name, "number", most=MOST_POINTS) for name in names)),
        Key("extra", "lines", default=(), most=_LONGEST),
        Key("hidden", "lines", default=(), most=_LONGEST),
        Key("weight", "number", default=1.0, most=1000),
        Key("due", "moment", default=None),
        Key("hints", "whole", default=None, most=100),
    )


_EXTENSION_KEYS = (
    Key("student", "line", most=_LONGEST),
    Key("exercise", "line", default="", most=_LONGEST),
    Key("due", "moment", default=None),
    Key("hours", "number", default=None, most=366 * 24),
)


def _mistakes_between(values: dict[str, Any], exercises: Sequence[str]) -> Iterator[Mistake]:
    """What is wrong between keys that are right one by one."""
    yield from _unknown_exercises(values, exercises)
    dated = {key for key in exercises if values["exercises"][key]["due"] or values["due"]}
    for key in exercises:
        for check in OWN:
            if check in values["exercises"][key]["points"]:
                advice = "Give points to checks of the exercise; `gpututor grade` names them."
                yield Mistake(f"exercises.'{key}'.points.{check}", "the grader's own check is worth nothing", advice)
    for position, extension in enumerate(values["extension"]):
        written = f"extension[{position}]"
        if (extension["due"] is None) == (extension["hours"] is None):
            yield Mistake(written, "expected either due or hours", "Write the date, or how many hours more.")
        elif (
            extension["hours"] is not None and not ({extension["exercise"]} if extension["exercise"] else dated) & dated
        ):
            yield Mistake(f"{written}.hours", "nothing is due that could be put off", "Write a date as due.")


def _unknown_exercises(values: dict[str, Any], exercises: Sequence[str]) -> Iterator[Mistake]:
    named = [(f"{key}[{position}]", name) for key in ("assigned", "drop") for position, name in enumerate(values[key])]
    named += [
        (f"extension[{position}].exercise", each["exercise"]) for position, each in enumerate(values["extension"])
    ]
    for written, name in named:
        if name and name not in exercises:
            yield Mistake(written, f"there is no exercise {name!r} in this course", nearest(name, exercises))


def _zone(name: str | None, mistakes: list[Mistake]) -> tzinfo | None:
    if name is None:
        return None
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        known = sorted(available_timezones())
        near = nearest(name, known) if known else ""
        advice = near if near.startswith("Did") else "Write one such as Europe/Berlin, or each date with +01:00."
        mistakes.append(Mistake("time_zone", f"there is no time zone {name!r} on this machine", advice))
        return None


def _with_dates(values: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every table that may have a `due`, and what stands before it."""
    yield "", values
    for key, table in values.get("exercises", {}).items():
        yield f"exercises.'{key}'.", table
    for position, table in enumerate(values.get("extension", ())):
        yield f"extension[{position}].", table


def _rules(path: Path, text: str, values: dict[str, Any], named: frozenset[str]) -> Rules:
    """`named`: the exercises that have a table."""
    exercises = {
        key: ExerciseRules(**{**table, "points": MappingProxyType(table["points"]), "weight": float(table["weight"])})
        for key, table in values["exercises"].items()
        if key in named
    }
    extensions = tuple(Extension(**{**each, "hours": each["hours"] or 0.0}) for each in values["extension"])
    plain = {name: value for name, value in values.items() if name not in _OF_TABLES}
    late = LatePolicy(**values["late"])
    return Rules(path=path, text=text, late=late, exercises=MappingProxyType(exercises), extensions=extensions, **plain)


_OF_TABLES = ("time_zone", "late", "exercises", "extension")
_PART = re.compile(r"'([^']*)'|\"([^\"]*)\"|([A-Za-z0-9_-]+)|\[(\d+)\]")
_HEADER = re.compile(r"\s*(\[\[?)([^\[\]]+)\]\]?\s*(#.*)?")
_KEY = re.compile(r"\s*((?:[\w-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*(?:[\w-]+|\"[^\"]*\"|'[^']*'))*)\s*=")


def _path_of(written: str) -> tuple[str | int, ...]:
    """`exercises.'a/b'.due`, `extension[1].due` in parts."""
    found = [match.groups() for match in _PART.finditer(written)]
    return tuple(int(index) if index is not None else single or double or bare for single, double, bare, index in found)


def line_of(text: str, path: tuple[str | int, ...]) -> int | None:
    """The line from 1 where the value at `path`, or the nearest table around it, begins; None where none is found."""
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

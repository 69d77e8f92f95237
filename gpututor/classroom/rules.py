"""Rules of a class from `classroom.toml`: points, lateness and hidden checks. docs/classroom/rules.md explains them."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal
from zoneinfo import ZoneInfo, available_timezones

from gpututor import __version__, paths
from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.submissions import Class
from gpututor.classroom.toml_mistakes import mistakes_error, syntax_error
from gpututor.course.loader import load_course
from gpututor.course.model import Course, Exercise
from gpututor.errors import CourseError, GradingError
from gpututor.files import ordinary, write_atomically
from gpututor.grading.client import GradingClient
from gpututor.grading.description import CheckDescription, description_from_json, description_to_json
from gpututor.grading.journal import exercise_digest
from gpututor.toml_schema import Key, Mistake, nearest, text_of, values_of
from gpututor.translation import ENGLISH, languages

OWN = ("loads", "runs", "prints")
"""The grader's own checks, which every exercise has, and which are worth nothing."""
MOST_POINTS = 10_000
PERIOD_S = {"day": 86400, "hour": 3600}
MOST_SLIP_DAYS = 60
YEARS = range(1970, 9000)
"""Years of dates: no extension or time zone shifts one out of what `datetime` knows."""
_DIRECTIONS = {"nearest": ROUND_HALF_UP, "up": ROUND_CEILING, "down": ROUND_FLOOR}
_LONGEST = 200
"""Characters of a name."""


@dataclass(frozen=True)
class ExerciseRules:
    """Rules for one exercise. None: the class's value."""

    points: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """Points by names of checks, instead of the author's."""
    extra: tuple[str, ...] = ()
    """Checks whose points are added to those of the exercise."""
    needs: tuple[str, ...] | None = None
    """Checks without which no other check earns points."""
    hidden: tuple[str, ...] = ()
    """Checks that students must not know of."""
    weight: float = 1.0
    due: datetime | None = None
    """Due date with a time zone."""
    hints: int | None = None
    leaderboard: bool | None = None
    max_attempts: int | None = None


@dataclass(frozen=True)
class LatePolicy:
    """Penalties for late attempts."""

    per_cent: float = 0.0
    """Penalty for each started period."""
    per: Literal["day", "hour"] = "day"
    taken_from: Literal["earned", "possible"] = "earned"
    """Basis of the penalty: the attempt's points, or the exercise's."""
    grace_minutes: float = 0.0
    """Minutes after the due date in which an attempt is still in time. Later attempts are late from the due date on."""
    most_per_cent: float = 100.0
    reject_after_hours: float | None = None
    """Hours after the due date after which an attempt is worth nothing; None: never."""

    def slip_days(self, late_s: float) -> int:
        """Return the number of days by which the due date must move for an attempt to be in time."""
        after_grace_s = late_s - 60 * self.grace_minutes
        return max(math.ceil(after_grace_s / PERIOD_S["day"]), 0)

    def periods(self, late_s: float) -> int:
        """Return the number of started periods; 0 within the grace period."""
        if late_s <= 60 * self.grace_minutes:
            return 0
        return math.ceil(late_s / PERIOD_S[self.per])

    def per_cent_for(self, periods: int) -> float:
        return min(self.per_cent * periods, self.most_per_cent)

    def is_too_late(self, late_s: float) -> bool:
        limit = self.reject_after_hours
        return limit is not None and late_s > max(3600 * limit, 60 * self.grace_minutes)


@dataclass(frozen=True)
class Extension:
    """More time for a student."""

    student: str
    """A `Student.id`."""
    exercise: str = ""
    """The exercise's key; empty for all exercises."""
    due: datetime | None = None
    """Another due date; None: the usual date plus `hours`."""
    hours: float = 0.0


@dataclass(frozen=True)
class Rules:
    """All rules of a class, with their defaults."""

    path: Path | None = None
    text: str = field(default="", repr=False)
    attempts: Literal["best", "last"] = "best"
    """The student's attempt that counts, after late penalties."""
    max_attempts: int | None = None
    """Number of a student's first attempts at an exercise that may count; None: all."""
    assigned: tuple[str, ...] = ()
    """Keys of the exercises of every student; empty for all exercises with submissions."""
    drop: tuple[str, ...] = ()
    drop_lowest: int = 0
    """Number of each student's lowest marks that do not count."""
    needs: tuple[str, ...] = ()
    """Checks without which no other check earns points, in every exercise that has them."""
    hidden: tuple[str, ...] = ()
    hidden_until_due: tuple[str, ...] = ()
    """Checks that Gradescope shows to students only after the due date."""
    hints: int = 0
    leaderboard: bool = True
    """True if times of passing submissions may be shown to the class."""
    language: str = ENGLISH
    """Language of feedback and of Gradescope's results."""
    due: datetime | None = None
    """Due date with a time zone. None: only the platform marks files as late."""
    late: LatePolicy = LatePolicy()
    slip_days: int = 0
    """Days by which a student may be late without a penalty, over all exercises."""
    decimals: int = 2
    rounding: Literal["nearest", "up", "down"] = "nearest"
    scale: float | None = None
    """Points of the largest total; None for the sum of the exercises' points."""
    exercises: Mapping[str, ExerciseRules] = field(default_factory=lambda: MappingProxyType({}))
    extensions: tuple[Extension, ...] = ()

    def of(self, exercise: str) -> ExerciseRules:
        return self.exercises.get(exercise, _DEFAULT)

    def is_hidden(self, exercise: str, check: str) -> bool:
        """Return True if students must not know of this check."""
        return check in self.hidden or check in self.of(exercise).hidden

    def is_hidden_before_due(self, exercise: str, check: str) -> bool:
        """Return True if students must not know of this check before the due date."""
        return check in self.hidden_until_due or self.is_hidden(exercise, check)

    def needs_of(self, exercise: str) -> tuple[str, ...]:
        """Return the checks of an exercise without which no other check earns points."""
        own = self.of(exercise).needs
        return self.needs if own is None else own

    def hints_for(self, exercise: str) -> int:
        own = self.of(exercise).hints
        return self.hints if own is None else own

    @property
    def counting_words(self) -> str:
        """A sentence on the attempt that counts: `The best of the first 3 attempts counts.`"""
        if self.max_attempts is None or self.max_attempts == 1:
            return f"The {self.attempts if self.max_attempts is None else 'first'} attempt counts."
        return f"The {self.attempts} of the first {self.max_attempts} attempts counts."

    def has_leaderboard(self, exercise: str) -> bool:
        own = self.of(exercise).leaderboard
        return self.leaderboard if own is None else own

    def max_attempts_for(self, exercise: str) -> int | None:
        own = self.of(exercise).max_attempts
        return self.max_attempts if own is None else own

    @property
    def zone(self) -> tzinfo | None:
        """The time zone of the first due date; None without a due date."""
        dates = [self.due, *(rules.due for rules in self.exercises.values())]
        return next((due.tzinfo for due in dates if due is not None), None)

    def due_for(self, exercise: str, student: str = "") -> datetime | None:
        """Return the due date for the class, or for a student with the latest of their extensions, in its own zone."""
        usual = self.of(exercise).due or self.due
        dates = [usual] if usual is not None else []
        for extension in self.extensions:
            if extension.student == student and extension.exercise in ("", exercise):
                if extension.due is not None:
                    dates.append(extension.due)
                elif usual is not None:
                    dates.append((usual.astimezone(UTC) + timedelta(hours=extension.hours)).astimezone(usual.tzinfo))
        return max(dates, default=None)

    def extends(self, exercise: str, student: str) -> bool:
        """Return True if the student has an extension; without a due date, it may have no effect."""
        return any(
            extension.student == student and extension.exercise in ("", exercise) for extension in self.extensions
        )

    def rounded(self, points: float) -> float:
        """Round as `decimals` and `rounding` say; halves go up."""
        step = Decimal(1).scaleb(-self.decimals)
        # Twelve decimals first, so that 0.1 + 0.2 is not rounded up.
        known = Decimal(points).quantize(Decimal(1).scaleb(-12), ROUND_HALF_UP)
        return float(known.quantize(step, _DIRECTIONS[self.rounding]))


_DEFAULT = ExerciseRules()


def rules_for(folder: ClassFolder, path: Path | None = None) -> Rules:
    """Read the rules in `path` or the class's folder, else the defaults. Raises one `UsageError` for all mistakes."""
    if path is None and not folder.rules_file.exists():
        return Rules()
    class_ = folder.read_class()
    course = course_of(class_)
    keys = [exercise.key for exercise in course.exercises] if course is not None else []
    keys += [submission.exercise for submission in class_.submissions]
    return read_rules(path or folder.rules_file, keys, course.keys_by_label if course is not None else {})


def course_of(class_: Class) -> Course | None:
    """Load the course; None if that fails, which `make_gradebook` reports."""
    try:
        return load_course(Path(class_.course))
    except CourseError:
        return None


def read_rules(path: Path, exercises: Sequence[str], labels: Mapping[str, str] = MappingProxyType({})) -> Rules:
    """Read rules, which may name `exercises` by their keys. Raises one `UsageError` for all mistakes.

    `labels`: keys of exercises by their labels, such as `2.1`, to suggest the key.
    """
    text = ""
    try:
        text = text_of(path)
        document = tomllib.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise syntax_error(path, text, error) from error
    mistakes: list[Mistake] = []
    known = tuple(dict.fromkeys(exercises))
    values = values_of(document, _keys(document, known), mistakes)
    if not mistakes:
        mistakes += _mistakes_between(values, known)
    zone = _zone(values.get("time_zone"), mistakes)
    for prefix, table in _tables_with_dates(values):
        if (due := table.get("due")) is not None and due.tzinfo is None:
            if values.get("time_zone") is None:
                advice = 'Write it as 2026-03-01T23:59:00+01:00, or add time_zone = "Europe/Berlin" at the top.'
                mistakes.append(Mistake(f"{prefix}due", "it has no time zone", advice))
            table["due"] = due.replace(tzinfo=zone)
        if due is not None and due.year not in YEARS:
            advice = "Leave it out if there is no due date."
            mistakes.append(Mistake(f"{prefix}due", f"the year {due.year} is out of range", advice))
    if mistakes:
        raise mistakes_error(path, text, [_with_key(mistake, labels) for mistake in mistakes])
    return _rules(path, text, values, frozenset(document.get("exercises", ())))


def _keys(document: dict[str, Any], exercises: Sequence[str]) -> tuple[Key, ...]:
    """Return the keys of the file. Names of checks are checked later, because only reports have them."""
    tables = document.get("exercises")
    of_exercises = tuple(
        Key(name, "table", default={}, keys=_exercise_keys(tables.get(name) if isinstance(tables, dict) else None))
        for name in exercises
    )
    return (
        Key("attempts", "choice", default="best", choices=("best", "last")),
        _MAX_ATTEMPTS,
        Key("assigned", "lines", default=(), most=_LONGEST),
        Key("drop", "lines", default=(), most=_LONGEST),
        Key("drop_lowest", "whole", default=0, most=100),
        Key("needs", "lines", default=(), most=_LONGEST),
        Key("hidden", "lines", default=(), most=_LONGEST),
        Key("hidden_until_due", "lines", default=(), most=_LONGEST),
        Key("hints", "whole", default=0, most=100),
        Key("leaderboard", "flag", default=True),
        Key("language", "choice", default=ENGLISH, choices=tuple(languages())),
        Key("due", "moment", default=None),
        Key("time_zone", "line", default=None, most=60),
        Key("decimals", "whole", default=2, most=6),
        Key("rounding", "choice", default="nearest", choices=("nearest", "up", "down")),
        Key("scale", "number", default=None, least=0.01, most=MOST_POINTS),
        Key("slip_days", "whole", default=0, most=MOST_SLIP_DAYS),
        Key("late", "table", default={}, keys=_LATE_KEYS),
        Key("exercises", "table", default={}, keys=of_exercises),
        Key("extension", "tables", default=(), most=10_000, keys=_EXTENSION_KEYS),
    )


_MAX_ATTEMPTS = Key("max_attempts", "whole", default=None, least=1, most=1000)
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
        Key("needs", "lines", default=None, most=_LONGEST),
        Key("hidden", "lines", default=(), most=_LONGEST),
        Key("weight", "number", default=1.0, most=1000),
        Key("due", "moment", default=None),
        Key("hints", "whole", default=None, most=100),
        Key("leaderboard", "flag", default=None),
        _MAX_ATTEMPTS,
    )


_EXTENSION_KEYS = (
    Key("student", "line", most=_LONGEST),
    Key("exercise", "line", default="", most=_LONGEST),
    Key("due", "moment", default=None),
    Key("hours", "number", default=None, most=366 * 24),
)


def _mistakes_between(values: dict[str, Any], exercises: Sequence[str]) -> Iterator[Mistake]:
    """Find mistakes between keys that are valid one by one."""
    yield from _unknown_exercises(values, exercises)
    for key in exercises:
        for check in OWN:
            if check in values["exercises"][key]["points"]:
                advice = "Give points to checks of the exercise; `gpututor grade` names them."
                yield Mistake(f"exercises.'{key}'.points.{check}", "the grader's own check is worth nothing", advice)
    yield from _hidden_needs(values, exercises)
    late = LatePolicy(**values["late"])
    if values["slip_days"] and not late.per_cent and late.reject_after_hours is None:
        advice = "Write per_cent in [late]: 100 if late work is worth nothing without a slip day."
        yield Mistake("slip_days", "slip days have no effect without a late penalty", advice)
    for position, extension in enumerate(values["extension"]):
        if (extension["due"] is None) == (extension["hours"] is None):
            advice = "Write the date, or how many hours more."
            yield Mistake(f"extension[{position}]", "expected either due or hours", advice)


def _hidden_needs(values: dict[str, Any], exercises: Sequence[str]) -> Iterator[Mistake]:
    """Find hidden checks that others need: checks that are held back would reveal them to students."""
    until_due = frozenset(values["hidden_until_due"])
    tables = [("needs", values["needs"], frozenset((*values["hidden"], *until_due)))]
    for key in exercises:
        own = values["exercises"][key]
        if own["needs"] is not None:
            hidden = frozenset((*values["hidden"], *own["hidden"], *until_due))
            tables.append((f"exercises.'{key}'.needs", own["needs"], hidden))
        else:
            tables.append((f"exercises.'{key}'.hidden", values["needs"], frozenset(own["hidden"])))
    for key, needs, hidden in tables:
        for check in needs:
            if check in hidden:
                where, when = ("hidden_until_due", " until the due date") if check in until_due else ("hidden", "")
                advice = f"Checks that are held back would reveal it. Remove it from `{where}` or from `needs`."
                yield Mistake(key, f"the check {check!r} is hidden{when}, so others cannot need it", advice)


def _unknown_exercises(values: dict[str, Any], exercises: Sequence[str]) -> Iterator[Mistake]:
    names = {f"{key}[{place}]": name for key in ("assigned", "drop") for place, name in enumerate(values[key])}
    names |= {f"extension[{place}].exercise": table["exercise"] for place, table in enumerate(values["extension"])}
    for key, name in names.items():
        if name and name not in exercises:
            yield Mistake(key, f"there is no exercise {name!r} in this course", nearest(name, exercises))


def _with_key(mistake: Mistake, labels: Mapping[str, str]) -> Mistake:
    """Suggest the key of an exercise that is named by its label."""
    words = f"{mistake.key} {mistake.problem}"
    keys = [key for label, key in labels.items() if repr(label) in words]
    return replace(mistake, advice=f"Did you mean {keys[0]!r}?") if keys else mistake


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


def _tables_with_dates(values: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each table that may have a `due`, with the prefix of its keys."""
    yield "", values
    for key, table in values.get("exercises", {}).items():
        yield f"exercises.'{key}'.", table
    for position, table in enumerate(values.get("extension", ())):
        yield f"extension[{position}].", table


def _rules(path: Path, text: str, values: dict[str, Any], with_table: frozenset[str]) -> Rules:
    exercises = {
        key: ExerciseRules(**{**table, "points": MappingProxyType(table["points"]), "weight": float(table["weight"])})
        for key, table in values["exercises"].items()
        if key in with_table
    }
    extensions = tuple(Extension(**{**table, "hours": table["hours"] or 0.0}) for table in values["extension"])
    others = {key: value for key, value in values.items() if key not in ("time_zone", "late", "exercises", "extension")}
    late = LatePolicy(**values["late"])
    return Rules(path, text, late=late, exercises=MappingProxyType(exercises), extensions=extensions, **others)


Describe = Callable[[Exercise], tuple[CheckDescription, ...]]


class CheckDescriptions:
    """Descriptions of checks from a cache, or from a judge that is started when it is first needed."""

    def __init__(self) -> None:
        self._client: GradingClient | None = None
        self._has_judge = True

    def __enter__(self) -> CheckDescriptions:
        return self

    def __exit__(self, *_: object) -> None:
        if self._client is not None:
            self._client.close()

    def of(self, exercise: Exercise) -> tuple[CheckDescription, ...]:
        """Return the descriptions of an exercise's checks; empty if they are unknown. Never raises."""
        try:
            path = paths.descriptions_folder() / f"{exercise_digest(exercise.folder)}.json"
        except CourseError:
            return ()  # an unreadable file; grading the exercise reports it
        if (cached := _cached(path)) is not None or not self._has_judge:
            return cached or ()
        try:
            self._client = self._client or GradingClient()
            checks = self._client.describe(str(exercise.folder))
        except CourseError:
            return ()  # the author's checks are broken; grading the exercise reports it
        except GradingError:  # PyTorch is not installed, or the judge died
            self._has_judge = False
            return ()
        with suppress(OSError):  # without a cache, the judge describes the checks again
            write_atomically(path, json.dumps({"gpututor": __version__, **description_to_json(checks)}))
        return checks


def points_of(checks: Iterable[CheckDescription]) -> dict[str, float]:
    """Return the author's points for each check; empty if they are unknown, or depend on the device."""
    described = list(checks)
    if any(check.depends_on_device and check.points for check in described):
        return {}
    return {check.name: check.points for check in described if check.sentences}


def _cached(path: Path) -> tuple[CheckDescription, ...] | None:
    try:
        with open(path, encoding="utf-8", opener=ordinary) as stream:
            data = json.load(stream)
        return description_from_json(data) if data["gpututor"] == __version__ else None
    except (OSError, ValueError, RecursionError, KeyError, TypeError, CourseError):
        return None

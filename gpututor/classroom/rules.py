"""The instructor's rules: what checks are worth, what is hidden, when work is late, and which attempt counts.

`gpututor.classroom.rules_file` reads them from `classroom.toml`; docs/classroom/rules.md explains the file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Literal

PERIOD_S = {"day": 86400, "hour": 3600}
_DIRECTIONS = {"nearest": ROUND_HALF_UP, "up": ROUND_CEILING, "down": ROUND_FLOOR}


@dataclass(frozen=True)
class ExerciseRules:
    """What holds for one exercise."""

    points: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """What a check is worth, by its name, where that is not what the author says."""
    extra: tuple[str, ...] = ()
    """Checks whose points come on top of what the exercise is worth."""
    hidden: tuple[str, ...] = ()
    """Checks that students must not learn anything of."""
    weight: float = 1.0
    """The exercise's points count so many times in the total."""
    due: datetime | None = None
    """With a time zone; None: as for the class."""
    hints: int | None = None
    """How many hints feedback may give; None: as for the class."""


@dataclass(frozen=True)
class LatePolicy:
    """What lateness costs."""

    per_cent: float = 0.0
    """For each started period."""
    per: Literal["day", "hour"] = "day"
    taken_from: Literal["earned", "possible"] = "earned"
    """Per cent of what the attempt earned, or of what the exercise is worth."""
    grace_minutes: float = 0.0
    """So much later is in time still; who is later than that is late from the due date on."""
    most_per_cent: float = 100.0
    reject_after_hours: float | None = None
    """So many hours after the due date, an attempt is worth nothing; None: never."""

    def periods(self, late_s: float) -> int:
        """Started periods; 0 within the grace."""
        if late_s <= 60 * self.grace_minutes:
            return 0
        return math.ceil(late_s / PERIOD_S[self.per])

    def per_cent_for(self, periods: int) -> float:
        """What is taken off for so many started periods."""
        return min(self.per_cent * periods, self.most_per_cent)

    def is_too_late(self, late_s: float) -> bool:
        limit = self.reject_after_hours
        return limit is not None and late_s > max(3600 * limit, 60 * self.grace_minutes)


@dataclass(frozen=True)
class Extension:
    """A student has more time."""

    student: str
    """A `Student.id`."""
    exercise: str = ""
    """Its key; empty for all of them."""
    due: datetime | None = None
    """The date that holds instead; None: the usual one, and `hours` more."""
    hours: float = 0.0


@dataclass(frozen=True)
class Rules:
    """All rules of a class. Without a file everything is as its defaults say."""

    path: Path | None = None
    """The file that they come from."""
    text: str = field(default="", repr=False)
    """What stands in it."""
    attempts: Literal["best", "last"] = "best"
    """Which of a student's attempts at an exercise counts; lateness is taken off before they are compared."""
    assigned: tuple[str, ...] = ()
    """The keys of the exercises that everybody had to do; empty: those that somebody handed in."""
    drop: tuple[str, ...] = ()
    """Keys of exercises that are shown, and count for nothing."""
    drop_lowest: int = 0
    """So many of each student's lowest marks count for nothing."""
    hidden: tuple[str, ...] = ()
    """Checks that are hidden in every exercise."""
    hints: int = 0
    """How many hints of an exercise feedback may give."""
    due: datetime | None = None
    """With a time zone. None: nothing is late, but for what the platform says."""
    late: LatePolicy = LatePolicy()
    decimals: int = 2
    rounding: Literal["nearest", "up", "down"] = "nearest"
    scale: float | None = None
    """What everything together is worth; None: the points as they are."""
    exercises: Mapping[str, ExerciseRules] = field(default_factory=lambda: MappingProxyType({}))
    """By their keys."""
    extensions: tuple[Extension, ...] = ()

    def of(self, exercise: str) -> ExerciseRules:
        return self.exercises.get(exercise, _AS_EVERYWHERE)

    def is_hidden(self, exercise: str, check: str) -> bool:
        """Whether students must not learn anything of this check."""
        return check in self.hidden or check in self.of(exercise).hidden

    def hints_for(self, exercise: str) -> int:
        """How many of its hints feedback may give."""
        own = self.of(exercise).hints
        return self.hints if own is None else own

    def due_for(self, exercise: str, student: str = "") -> datetime | None:
        """When it is due, for a student where one is named: of several extensions the latest date holds."""
        usual = self.of(exercise).due or self.due
        found = [usual] if usual is not None else []
        for each in self.extensions:
            if each.student == student and each.exercise in ("", exercise):
                if each.due is not None:
                    found.append(each.due)
                elif usual is not None:
                    found.append(usual.astimezone(UTC) + timedelta(hours=each.hours))
        return max(found, default=None)

    def rounded(self, points: float) -> float:
        """As `decimals` and `rounding` say; halves go up."""
        step = Decimal(1).scaleb(-self.decimals)
        # Twelve decimals first: 0.1 + 0.2 is no reason to round up.
        known = Decimal(points).quantize(Decimal(1).scaleb(-12), ROUND_HALF_UP)
        return float(known.quantize(step, _DIRECTIONS[self.rounding]))


_AS_EVERYWHERE = ExerciseRules()

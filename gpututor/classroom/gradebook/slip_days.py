"""Slip days: each student's budget of days, by which due dates move without a penalty.

Days are spent in the order of the student's due dates. A day moves a due date by 24 hours, for all exercises that are
due at it. At each due date, the fewest days are spent with which the marks there are highest.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from gpututor.classroom.gradebook.marking import slip_days_needed
from gpututor.classroom.gradebook.model import Mark, MarkStatus
from gpututor.classroom.rules import Rules

_NEVER = datetime.max.replace(tzinfo=UTC)
"""Sort key of exercises without a due date: they come last."""


def spend_slip_days(
    student: str, exercises: Sequence[str], rules: Rules, mark: Callable[[str, int], Mark]
) -> tuple[list[Mark], int]:
    """Return a student's marks for `exercises`, in their order, and the number of slip days spent.

    `mark`: computes a mark for an exercise, whose due date is moved by a number of days. Marks by hand come later: they
    change neither the days nor other marks. Exercises that do not count spend no days.
    """
    marks = {key: mark(key, 0) for key in exercises}
    left = rules.slip_days
    by_due: dict[datetime, list[str]] = defaultdict(list)
    for key in exercises if left else ():
        if key not in rules.drop and _needed(marks[key], rules):
            by_due[rules.due_for(key, student) or _NEVER].append(key)
    for due in sorted(by_due):
        most = min(left, max(_needed(marks[key], rules) for key in by_due[due]))
        unmoved = {key: marks[key] for key in by_due[due]}
        choices = [unmoved, *({key: mark(key, days) for key in unmoved} for days in range(1, most + 1))]
        worth = [_worth(choice, rules) for choice in choices]
        days = worth.index(max(worth))
        marks |= choices[days]
        left -= days
    return [marks[key] for key in exercises], rules.slip_days - left


def _needed(mark: Mark, rules: Rules) -> int:
    """Return the number of days with which all attempts would be in time."""
    return max((slip_days_needed(attempt.submission, rules) for attempt in mark.attempts), default=0)


def _worth(marks: Mapping[str, Mark], rules: Rules) -> float:
    """Sum up weighted points. An open mark counts as its maximum, so that no other exercise takes its days."""
    worth = []
    for key, mark in marks.items():
        points = mark.points
        if mark.counted is not None and mark.status in (MarkStatus.OPEN, MarkStatus.NOT_GRADED):
            points = mark.counted.most
        worth.append(points * rules.of(key).weight)
    return math.fsum(worth)

"""Leaderboards: the students of an exercise by the time of their fastest passing submission.

A time is a ratio to the baseline's. Times that the virtual GPU modelled, and times of each real device, have
leaderboards of their own.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpututor.classroom.gradebook.marking import timings_of
from gpututor.classroom.gradebook.model import ExerciseSummary, Gradebook, Mark, MarkStatus
from gpututor.classroom.rules import Rules
from gpututor.classroom.tables import number
from gpututor.grading.report import Outcome, Report
from gpututor.grading.report_text import count

_INDEX = re.compile(r"^\w+:\d+, ")
"""Index of a device in its name: two devices of the same model share a leaderboard."""


@dataclass(frozen=True)
class TimeKind:
    """The kind of a time; only times of the same kind are compared."""

    is_measured: bool
    """True on a real device; False for a time that the virtual GPU modelled."""
    device: str
    """Devices of the scenarios: `virtual T4`; empty if unknown."""

    @property
    def words(self) -> str:
        return " on ".join(filter(None, ("measured" if self.is_measured else "modelled", self.device)))


@dataclass(frozen=True)
class LeaderboardPlace:
    """A student's place on a leaderboard."""

    place: int
    """Number from 1; the same for equal times."""
    student: str
    ratio: float
    """Submission's time divided by the baseline's, in the slowest scenario."""


@dataclass(frozen=True)
class Leaderboard:
    """The fastest passing submission of each student for an exercise."""

    exercise: ExerciseSummary
    timed: TimeKind
    places: tuple[LeaderboardPlace, ...]
    """Places, the fastest first."""

    @property
    def title(self) -> str:
        return f"{self.exercise.numbered_title}: times {self.timed.words}"


def leaderboards(gradebook: Gradebook) -> list[Leaderboard]:
    """Return the leaderboards of all exercises with a time to show, in the order of the course."""
    boards = []
    for at, exercise in enumerate(gradebook.exercises):
        ratios: dict[TimeKind, dict[str, float]] = defaultdict(dict)
        for marks in gradebook.students:
            for timed, ratio in times_of(marks.marks[at], gradebook.rules).items():
                ratios[timed][marks.student.id] = ratio
        boards += [
            Leaderboard(exercise, timed, _places(ratios[timed]))
            for timed in sorted(ratios, key=lambda timed: (timed.is_measured, timed.device))
        ]
    return boards


def times_of(mark: Mark, rules: Rules) -> dict[TimeKind, float]:
    """Return the student's best ratio among the passing attempts that may count, by the kind of time.

    The result is empty if the rules switch leaderboards off, or if students see no check of speed. It is also empty
    after a mark by hand below full points.
    """
    best: dict[TimeKind, float] = {}
    if not rules.has_leaderboard(mark.exercise) or (mark.by_hand is not None and mark.points < mark.of):
        return best
    limit = rules.max_attempts_for(mark.exercise)
    for attempt in mark.attempts:
        may_count = not attempt.lateness.too_late and (limit is None or attempt.submission.attempt <= limit)
        if may_count and attempt.report is not None and attempt.status is MarkStatus.FINAL:
            for timed, ratio in _ratios_of(attempt.report, mark.exercise, rules).items():
                best[timed] = min(ratio, best.get(timed, ratio))
    return best


def _ratios_of(report: Report, exercise: str, rules: Rules) -> dict[TimeKind, float]:
    """Return the ratio of a passing submission in its slowest scenario, by the kind of time."""
    if report.outcome is not Outcome.PASSED:
        return {}
    slowest: dict[bool, float] = {}
    devices: dict[bool, dict[str, None]] = {}
    for timing in timings_of("", report):
        if not rules.is_hidden_before_due(exercise, timing.check):
            slowest[timing.is_measured] = max(timing.ratio, slowest.get(timing.is_measured, 0.0))
            devices.setdefault(timing.is_measured, {})[_INDEX.sub("", timing.device)] = None
    return {TimeKind(kind, "; ".join(filter(None, devices[kind]))): ratio for kind, ratio in slowest.items()}


def _places(ratios: Mapping[str, float]) -> tuple[LeaderboardPlace, ...]:
    ordered = sorted(ratios.items(), key=lambda pair: (pair[1], pair[0]))
    first = {ratio: place for place, (_, ratio) in reversed(list(enumerate(ordered, 1)))}
    return tuple(LeaderboardPlace(first[ratio], student, ratio) for student, ratio in ordered)


def standing_of(boards: Sequence[Leaderboard], student: str) -> Iterator[str]:
    """Yield the student's place on each leaderboard: `5.3 Hidden syncs: place 2 of 14, 0.81 × the baseline's time`."""
    for board in boards:
        for entry in board.places:
            if entry.student == student:
                which = f"place {entry.place} of {len(board.places)}"
                time = f"{number(entry.ratio)} × the baseline's time, {board.timed.words}"
                yield f"{board.exercise.numbered_title}: {which}, {time}"


def lines_of(boards: Sequence[Leaderboard], names: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of leaderboards for a terminal. `names`: texts in place of ids."""
    for at, board in enumerate(boards):
        if at:
            yield ""
        yield f"{board.title} ({count(len(board.places), 'student')})"
        for entry in board.places:
            yield f"{entry.place:>5}  {entry.ratio:>6.2f} ×  {names.get(entry.student, entry.student)}"

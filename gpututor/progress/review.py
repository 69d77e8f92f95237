"""Exercises worth repeating, recurring mistakes, and the lesson that teaches a kind of check."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo

from gpututor.course.model import Course, Exercise
from gpututor.errors import CourseError
from gpututor.progress.store import AttemptSummary, ExerciseProgress

MANY_FAILURES = 3
"""Failures before the first pass that make an exercise worth repeating."""
ENOUGH_TRIES = 2
"""Tries in which a learner must pass a repeated exercise; then it need not be repeated again."""
_RATIO = re.compile(r"(\d+\.\d+) × the baseline's time")
"""The beginning of a speed check's figures."""
_UNFINISHED, _SOLUTION, _FAILURE, _HINT = 100, 60, 10, 6
REMEMBER = "## Remember"
OWN_KINDS = {
    "loads": "The file did not load",
    "runs": "The run stopped before its end",
    "prints": "The file printed more than the limit",
}
"""Built-in checks, which every exercise has: no lesson is about them."""
_OF_VALUES = {"value", "parity"}
"""Checks that any lesson may be about."""
_KINDS = OWN_KINDS | {
    "after_call": "The state of the arguments after the call",
    "aliasing": "Which tensors share memory",
    "coalesced": "Which bytes neighboring lanes of a kernel use",
    "collectives": "How much ranks communicate",
    "compilations": "How often the compiler runs, and where a graph breaks",
    "files": "The contents of written files",
    "identity": "Which outputs are the passed objects themselves",
    "in_bounds": "Kernels stay inside their tensors",
    "launches": "How many kernels are launched",
    "measurement": "Times are measured correctly",
    "memory": "How much memory is held",
    "no_races": "No program of a kernel writes what another uses",
    "overlap": "Copies and kernels overlap",
    "parity": "The values match the reference",
    "placement": "Where the outputs live",
    "precision": "Which dtypes the operators use",
    "processes": "What each rank does",
    "programs": "How many programs a kernel starts",
    "races": "No two streams race for the same memory",
    "source": "What the file uses and avoids",
    "speed": "How fast it is",
    "structure": "The outputs' types, shapes and dtypes",
    "syncs": "How often the host waits",
    "traffic": "How many bytes kernels move",
    "transfers": "How often and how much is copied",
    "unmodified": "Inputs stay unchanged",
    "value": "The values are as expected",
}
MANY = 3
"""A lesson is about a check if at least so many of its exercises, and half of them, have the check."""


@dataclass(frozen=True)
class Repeat:
    """An exercise that is worth repeating."""

    exercise: str
    reasons: tuple[str, ...]
    """Most important first."""
    weight: int


@dataclass(frozen=True)
class RecurringFailure:
    """A check that failed, in one or more exercises."""

    check: str
    sentence: str
    """The mistake's most frequent sentence."""
    times: int
    exercises: tuple[str, ...]
    """Keys, most frequent first."""


def to_repeat(
    all_attempts: Iterable[AttemptSummary],
    progress: Mapping[str, ExerciseProgress],
    solutions: Collection[str],
    begun_again: Mapping[str, int],
    order: Sequence[str],
) -> tuple[Repeat, ...]:
    """Return the exercises worth repeating, by weight, then in `order`, the keys of the course's exercises."""
    by_exercise: defaultdict[str, list[AttemptSummary]] = defaultdict(list)
    for attempt in all_attempts:
        by_exercise[attempt.exercise].append(attempt)
    repeats = [
        _repeat(key, by_exercise[key], progress.get(key, ExerciseProgress()), key in solutions, begun_again.get(key))
        for key in order
    ]
    return tuple(sorted(filter(None, repeats), key=lambda repeat: -repeat.weight))


def _repeat(
    key: str, attempts: Sequence[AttemptSummary], progress: ExerciseProgress, solution: bool, begun_at: int | None
) -> Repeat | None:
    since = [attempt for attempt in attempts if begun_at is not None and attempt.id > begun_at]
    if any(attempt.passed for attempt in since[:ENOUGH_TRIES]):
        return None
    counted = since or attempts
    failures = next((index for index, attempt in enumerate(counted) if attempt.passed), len(counted))
    passed = failures < len(counted)
    weighed: list[tuple[int, str]] = []
    if not passed and counted:
        passed_before = any(attempt.passed for attempt in attempts)
        words = "passed before, then tried again {}, not passed again" if passed_before else "tried {}, not passed yet"
        weighed.append((_UNFINISHED + failures, words.format(_times(failures))))
    if passed and failures >= MANY_FAILURES:
        weighed.append((_FAILURE * min(failures, 5), f"passed after {failures} failures"))
    if solution and attempts:
        weighed.append((_SOLUTION, "the solution was opened first"))
    if progress.hints_used and attempts:
        weighed.append((_HINT * progress.hints_used, f"{progress.hints_used} hint{'s' * (progress.hints_used > 1)}"))
    if not weighed:
        return None
    weighed.sort(key=lambda pair: -pair[0])
    return Repeat(key, tuple(reason for _, reason in weighed), sum(weight for weight, _ in weighed))


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number} times")


def mistakes(all_attempts: Iterable[AttemptSummary]) -> tuple[RecurringFailure, ...]:
    """Return the checks that failed, the most frequent first; a check counts once an attempt."""
    times: Counter[str] = Counter()
    sentences: defaultdict[str, Counter[str]] = defaultdict(Counter)
    exercises: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for attempt in all_attempts:
        for check in {failed.check for failed in attempt.failed}:
            times[check] += 1
            exercises[check][attempt.exercise] += 1
        for failed in attempt.failed:
            sentences[failed.check][failed.sentence] += 1
    return tuple(
        RecurringFailure(
            check, sentences[check].most_common(1)[0][0], number, tuple(dict(exercises[check].most_common()))
        )
        for check, number in times.most_common()
    )


def best_times(all_attempts: Iterable[AttemptSummary]) -> dict[str, str]:
    """Return by exercise key the speed figures of the fastest attempt that passed, if it is below the baseline."""
    fastest: dict[str, tuple[float, str]] = {}
    for attempt in all_attempts:
        for figures in attempt.measured if attempt.passed else ():
            ratio = _RATIO.match(figures)
            if ratio and float(ratio[1]) < fastest.get(attempt.exercise, (1.0, ""))[0]:
                fastest[attempt.exercise] = (float(ratio[1]), figures)
    return {key: figures for key, (_, figures) in fastest.items()}


LONGEST_PAUSE_S = 15 * 60
"""Seconds between two attempts that still count as practice; a longer gap is a break."""


@dataclass(frozen=True)
class Practice:
    """Time spent, days, and exercises that passed on the first try."""

    seconds: Mapping[str, float]
    """Time by exercise key: from the attempt before to each attempt, without breaks."""
    days: frozenset[date]
    first_tries: int

    def streak(self, today: date) -> int:
        """Return the number of days in a row up to today, or to yesterday if today has no attempt yet."""
        day = today if today in self.days else today - timedelta(days=1)
        number = 0
        while day - timedelta(days=number) in self.days:
            number += 1
        return number


def practice(all_attempts: Iterable[AttemptSummary], zone: tzinfo | None = None) -> Practice:
    """Return what the times of the attempts, oldest first, say about practice; days are those of `zone`."""
    seconds: defaultdict[str, float] = defaultdict(float)
    days: set[date] = set()
    first_tries: dict[str, bool] = {}
    before: datetime | None = None
    for attempt in all_attempts:
        first_tries.setdefault(attempt.exercise, attempt.passed)
        with suppress(ValueError, OverflowError):  # a newer gpututor may write times in another form
            then = datetime.fromisoformat(attempt.started_at).astimezone(zone)
            days.add(then.date())
            pause = (then - before).total_seconds() if before is not None else 0.0
            seconds[attempt.exercise] += pause if 0 < pause <= LONGEST_PAUSE_S else 0.0
            before = then
    return Practice(seconds, frozenset(days), sum(first_tries.values()))


def general_rule(mistake: RecurringFailure) -> str:
    """Return the check's rule for any exercise; for a check of the author's own, its most frequent sentence."""
    return _KINDS.get(mistake.check, mistake.sentence)


_NAMED = re.compile(r"\b(\w+)\(|\bname=\"([^\"]+)\"")
"""Names that `checks.py` calls, and names that the author gave to checks."""

CheckNames = Mapping[str, Sequence[frozenset[str]]]
"""Names in the checks of each exercise, by the slug of the lesson."""


def check_names(course: Course) -> CheckNames:
    """Read the checks of all exercises, 0.1 ms each."""
    return {lesson.slug: [_names_in(exercise) for exercise in lesson.exercises] for lesson in course.lessons}


def _names_in(exercise: Exercise) -> frozenset[str]:
    with suppress(CourseError):  # `gpututor doctor` reports the file
        return frozenset(call or name for call, name in _NAMED.findall(exercise.checks))
    return frozenset()


def lesson_about(mistake: RecurringFailure, names: CheckNames) -> str:
    """Return the slug of the lesson that teaches the rule of a check; empty for built-in checks.

    That is the first lesson with the check in half of its exercises, else the lesson with most such exercises. For a
    check of values, and for one that no exercise names, it is the lesson in which it failed most often.
    """
    if mistake.check in OWN_KINDS:
        return ""
    of_most_failures = mistake.exercises[0].partition("/")[0]
    if mistake.check in _OF_VALUES:
        return of_most_failures
    uses: dict[str, int] = {}
    for slug, exercises in names.items():
        uses[slug] = sum(mistake.check in exercise for exercise in exercises)
        if uses[slug] >= max(MANY, len(exercises) / 2):
            return slug
    if any(uses.values()):
        return max(uses, key=lambda slug: uses[slug])
    return of_most_failures


def to_remember(lesson_text: str) -> str:
    """Return the "Remember" section of a lesson's text; empty without one."""
    lines = lesson_text.splitlines()
    if REMEMBER not in lines:
        return ""
    rest = lines[lines.index(REMEMBER) + 1 :]
    end = next((number for number, line in enumerate(rest) if line.startswith(("# ", "## "))), len(rest))
    return "\n".join(rest[:end]).strip()

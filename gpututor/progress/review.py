"""Exercises worth repeating, recurring mistakes, and the lesson about a kind of check."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpututor.course.model import Course, Exercise
from gpututor.errors import CourseError
from gpututor.progress.store import AttemptSummary, ExerciseProgress

MANY_FAILURES = 3
"""From so many failures before the first pass an exercise is worth repeating."""
ENOUGH_TRIES = 2
"""Who passes a repeated exercise in so many tries knows it."""
_RATIO = re.compile(r"(\d+\.\d+) × the baseline's time")
"""How the figures of a check of speed begin."""
_UNFINISHED, _SOLUTION, _FAILURE, _HINT = 100, 60, 10, 6
REMEMBER = "## Remember"
OWN_KINDS = {
    "loads": "The file loads",
    "runs": "It runs to its end",
    "prints": "It prints no more than can be kept",
}
"""The grader's own checks: every exercise has them, so no lesson is about them."""
_KINDS = OWN_KINDS | {
    "aliasing": "What shares memory with what",
    "after_call": "What becomes of the arguments",
    "files": "What is written to files",
    "identity": "Which outputs are the very objects that were passed",
    "launches": "How many kernels are launched",
    "measurement": "Times are measured rightly",
    "memory": "How much memory is held",
    "overlap": "Copies and kernels run beside each other",
    "parity": "The values are those of the reference",
    "placement": "Where the outputs live",
    "precision": "Which dtypes are computed in",
    "processes": "What each rank does",
    "races": "No two streams race for the same memory",
    "source": "What the file uses and does not use",
    "speed": "How fast it is",
    "structure": "The outputs' types, shapes and dtypes",
    "syncs": "How often the host waits",
    "transfers": "How often and how much is copied",
    "unmodified": "Inputs are left as they were",
    "value": "The values are those that are expected",
}
MANY = 3
"""A lesson that asks for something in so many exercises, and in half of them, is about it."""


@dataclass(frozen=True)
class Repeat:
    """An exercise that is worth repeating."""

    exercise: str
    """Its key."""
    reasons: tuple[str, ...]
    """Why, in words, the weightiest first."""
    weight: int
    """The more, the sooner."""


@dataclass(frozen=True)
class Mistake:
    """A kind of check that said no."""

    check: str
    sentence: str
    """What it asks for, as it was said most often."""
    times: int
    exercises: tuple[str, ...]
    """Keys, the one where it came most often first."""


def to_repeat(
    all_tries: Iterable[AttemptSummary],
    progress: Mapping[str, ExerciseProgress],
    solutions: Collection[str],
    begun_again: Mapping[str, int],
    order: Sequence[str],
) -> tuple[Repeat, ...]:
    """What is worth repeating, most first; among equals in the order of the course, whose keys `order` has."""
    by_exercise: dict[str, list[AttemptSummary]] = {key: [] for key in order}
    for one in all_tries:
        if one.exercise in by_exercise:
            by_exercise[one.exercise].append(one)
    found = [
        _repeat(key, by_exercise[key], progress.get(key, ExerciseProgress()), key in solutions, begun_again.get(key))
        for key in order
    ]
    return tuple(sorted((each for each in found if each is not None), key=lambda each: -each.weight))


def _repeat(
    key: str, attempts: Sequence[AttemptSummary], progress: ExerciseProgress, solution: bool, begun_at: int | None
) -> Repeat | None:
    since = [one for one in attempts if begun_at is not None and one.id > begun_at]
    if any(one.passed for one in since[:ENOUGH_TRIES]):
        return None
    counted = since or attempts
    failures = next((place for place, one in enumerate(counted) if one.passed), len(counted))
    passed = failures < len(counted)
    weighed: list[tuple[int, str]] = []
    if not passed and counted:
        weighed.append((_UNFINISHED + failures, f"{_times(failures)} tried{' again' if since else ''}, not passed yet"))
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


def mistakes(all_tries: Iterable[AttemptSummary]) -> tuple[Mistake, ...]:
    """The kinds of check that said no, the most frequent first; a check counts once an attempt."""
    times: Counter[str] = Counter()
    sentences: dict[str, Counter[str]] = {}
    exercises: dict[str, Counter[str]] = {}
    for one in all_tries:
        for check in {failed.check for failed in one.failed}:
            times[check] += 1
            exercises.setdefault(check, Counter())[one.exercise] += 1
        for failed in one.failed:
            sentences.setdefault(failed.check, Counter())[failed.sentence] += 1
    return tuple(
        Mistake(
            check,
            sentences[check].most_common(1)[0][0],
            number,
            tuple(key for key, _ in exercises[check].most_common()),
        )
        for check, number in times.most_common()
    )


def best_times(all_tries: Iterable[AttemptSummary]) -> dict[str, str]:
    """By exercise key: the figures of the fastest attempt that passed, where a check of speed gave any."""
    fastest: dict[str, tuple[float, str]] = {}
    for one in all_tries:
        for figures in one.measured if one.passed else ():
            ratio = _RATIO.match(figures)
            if ratio and float(ratio[1]) < fastest.get(one.exercise, (float("inf"), ""))[0]:
                fastest[one.exercise] = (float(ratio[1]), figures)
    return {key: figures for key, (_, figures) in fastest.items()}


def in_general(mistake: Mistake) -> str:
    """What a kind of check asks for, whatever the exercise; of a kind of the author's own, its usual sentence."""
    return _KINDS.get(mistake.check, mistake.sentence)


def lesson_about(mistake: Mistake, course: Course) -> str:
    """The slug of the lesson that teaches what a kind of check asks for.

    It is the first that asks for it in half of its exercises, else the one that asks most often; where no exercise
    names the check, the lesson in which it failed most often. Empty for the grader's own checks.
    """
    if mistake.check in OWN_KINDS:
        return ""
    word = re.compile(rf"\b{re.escape(mistake.check)}\(|\bname=\"{re.escape(mistake.check)}\"")
    asks = {lesson.slug: sum(bool(word.search(_checks(one))) for one in lesson.exercises) for lesson in course.lessons}
    for lesson in course.lessons:
        if asks[lesson.slug] >= max(MANY, len(lesson.exercises) / 2):
            return lesson.slug
    if most := max(asks.values(), default=0):
        return next(slug for slug, number in asks.items() if number == most)
    return mistake.exercises[0].partition("/")[0]


def _checks(exercise: Exercise) -> str:
    try:
        return exercise.checks
    except CourseError:
        return ""


def to_remember(lesson_text: str) -> str:
    """The section of a lesson's text that sums it up; empty where it has none."""
    lines = lesson_text.splitlines()
    if REMEMBER not in lines:
        return ""
    rest = lines[lines.index(REMEMBER) + 1 :]
    end = next((number for number, line in enumerate(rest) if line.startswith(("# ", "## "))), len(rest))
    return "\n".join(rest[:end]).strip()

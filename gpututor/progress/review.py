"""What is worth repeating, and which kinds of mistake come back. Plain functions of what was noted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpututor.progress.history import Try
from gpututor.progress.store import ExerciseProgress

MANY_FAILURES = 3
"""From so many failures before the first pass an exercise is worth repeating."""
ENOUGH_TRIES = 2
"""Who passes a repeated exercise in so many tries knows it."""
_RATIO = re.compile(r"(\d+\.\d+) × the baseline's time")
"""How the figures of a check of speed begin."""
_UNFINISHED, _SOLUTION, _FAILURE, _HINT = 100, 60, 10, 6


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
    all_tries: Iterable[Try],
    progress: Mapping[str, ExerciseProgress],
    solutions: Collection[str],
    begun_again: Mapping[str, int],
    order: Sequence[str],
) -> tuple[Repeat, ...]:
    """What is worth repeating, most first; among equals in the order of the course, whose keys `order` has."""
    by_exercise: dict[str, list[Try]] = {key: [] for key in order}
    for one in all_tries:
        if one.exercise in by_exercise:
            by_exercise[one.exercise].append(one)
    found = [
        _repeat(key, by_exercise[key], progress.get(key, ExerciseProgress()), key in solutions, begun_again.get(key))
        for key in order
    ]
    return tuple(sorted((each for each in found if each is not None), key=lambda each: -each.weight))


def _repeat(
    key: str, attempts: Sequence[Try], progress: ExerciseProgress, solution: bool, begun_at: int | None
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


def mistakes(all_tries: Iterable[Try]) -> tuple[Mistake, ...]:
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


def best_times(all_tries: Iterable[Try]) -> dict[str, str]:
    """By exercise key: the figures of the fastest attempt that passed, where a check of speed gave any."""
    fastest: dict[str, tuple[float, str]] = {}
    for one in all_tries:
        for figures in one.measured if one.passed else ():
            ratio = _RATIO.match(figures)
            if ratio and float(ratio[1]) < fastest.get(one.exercise, (float("inf"), ""))[0]:
                fastest[one.exercise] = (float(ratio[1]), figures)
    return {key: figures for key, (_, figures) in fastest.items()}

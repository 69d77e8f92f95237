"""Submissions that are faster than a device can be, or far faster than the class."""

from __future__ import annotations

import re
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence

from gpututor.classroom.gradebook.model import Attempt, Timing
from gpututor.classroom.gradebook.statistics import timings_of
from gpututor.grading.report import Report, Status
from gpututor.grading.words import LEAST_TIME

FEWEST = 10
"""Among fewer different texts that passed, none is told from the others."""
FAR = 4.0
"""So many times as fast as the middle one of the class."""
FEW = 0.05
"""Where more than this share of the class is so fast, it is how some solve the exercise."""

_FASTER = re.compile(rf"\bwas faster than\b|{re.escape(LEAST_TIME)}")


def is_about_speed(words: str) -> bool:
    """Whether what the report tells is that something was faster than the device can be."""
    return _FASTER.search(words) is not None


def far_faster(attempts: Sequence[Attempt]) -> dict[Attempt, str]:
    """Those that are far faster than the others at one exercise, each with a sentence."""
    by_check: dict[tuple[str, str, bool], dict[str, Timing]] = defaultdict(dict)
    for attempt in attempts:
        if attempt.report is not None:
            for timing in _passed(attempt.report):
                place = (timing.check, timing.scenario, timing.is_measured)
                by_check[place].setdefault(attempt.handed_in.sha256, timing)
    found: dict[str, str] = {}
    for timings in by_check.values():
        if len(timings) < FEWEST:
            continue
        middle = statistics.median(timing.ratio for timing in timings.values())
        fast = {digest: timing for digest, timing in timings.items() if timing.ratio * FAR < middle}
        if len(fast) <= max(1.0, FEW * len(timings)):
            for digest, timing in fast.items():
                found.setdefault(digest, _words(timing, middle, len(timings)))
    return {attempt: found[attempt.handed_in.sha256] for attempt in attempts if attempt.handed_in.sha256 in found}


def _passed(report: Report) -> Iterator[Timing]:
    return (timing for timing in timings_of("", report) if timing.status is Status.PASSED)


def _words(timing: Timing, middle: float, texts: int) -> str:
    times = f"{middle / timing.ratio:.0f} times as fast as" if timing.ratio else "far faster than"
    return (
        f"{timing.check} ({timing.scenario}): {timing.words}. That is {times} the middle one of the class "
        f"({middle:.2g} × the baseline's time, {texts} texts that passed). It may be a very good idea, or work that "
        "was not done."
    )

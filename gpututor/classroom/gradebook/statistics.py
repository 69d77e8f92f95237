"""What an exercise came to over the whole class."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence

from gpututor.classroom.gradebook.attempts import Worth
from gpututor.classroom.gradebook.model import (
    BINS,
    Attempt,
    CheckCount,
    CheckMark,
    ExerciseSummary,
    Mark,
    Standing,
    Timing,
)
from gpututor.classroom.rules import Rules
from gpututor.grading.report import Report, Status

_RATIO = re.compile(r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?) × ")
"""How the figures of a check of speed begin: `0.81 × the baseline`."""


def summary(label: str, title: str, marks: Sequence[Mark], of: Worth, rules: Rules) -> ExerciseSummary:
    """`marks`: of all students, at one exercise."""
    exercise = of.exercise
    counted = [mark.counted for mark in marks if mark.counted is not None]
    shares = [min(mark.share, 1.0) for mark in marks if mark.standing is Standing.FINAL]
    outcomes = Counter(attempt.outcome for attempt in counted if attempt.outcome is not None)
    return ExerciseSummary(
        exercise=exercise,
        label=label,
        title=title,
        of=of.of,
        extra=of.most - of.of,
        weight=rules.of(exercise).weight,
        due=rules.due_for(exercise),
        is_dropped=exercise in rules.drop,
        handed_in=len(counted),
        without_mark=sum(not mark.standing.is_mark for mark in marks),
        outcomes=tuple(sorted(outcomes.items(), key=lambda pair: (-pair[1], pair[0]))),
        distribution=_distribution(shares),
        mean_share=statistics.fmean(shares) if shares else None,
        median_share=statistics.median(shares) if shares else None,
        checks=_check_counts(counted),
        timings=tuple(sorted(_timings(counted), key=lambda timing: (timing.ratio, timing.student, timing.scenario))),
        knows_of=of.is_known,
    )


def _distribution(shares: Sequence[float]) -> tuple[int, ...]:
    # What is a whole number of tenths must not fall below it by a rounding error.
    found = Counter(min(int(share * BINS + 1e-9), BINS - 1) for share in shares)
    return tuple(found[position] for position in range(BINS))


def _check_counts(attempts: Sequence[Attempt]) -> tuple[CheckCount, ...]:
    by_name: dict[str, list[CheckMark]] = {}
    for attempt in attempts:
        for check in attempt.checks:
            by_name.setdefault(check.check, []).append(check)
    found = [_check_count(checks) for checks in by_name.values()]
    return tuple(sorted(found, key=lambda each: (-each.failed, each.check)))


def _check_count(checks: Sequence[CheckMark]) -> CheckCount:
    one = checks[0]
    statuses = Counter(check.status for check in checks)
    return CheckCount(
        check=one.check,
        sentence=one.sentence,
        of=one.of,
        is_extra=one.is_extra,
        is_hidden=one.is_hidden,
        passed=statuses[Status.PASSED],
        failed=statuses[Status.FAILED] + statuses[Status.TOO_SLOW],
        open=statuses[Status.INCONCLUSIVE] + statuses[Status.NEEDS_REVIEW],
        not_run=statuses[Status.NOT_RUN],
        held_back=statuses[Status.HELD_BACK],
    )


def _timings(attempts: Sequence[Attempt]) -> Iterator[Timing]:
    for attempt in attempts:
        if attempt.report is not None:
            yield from timings_of(attempt.handed_in.student, attempt.report)


def timings_of(student: str, report: Report) -> Iterator[Timing]:
    """The times that checks compared with a baseline's, as far as their figures say a ratio."""
    times = {run.scenario: run.times for run in report.runs}
    for verdict in report.verdicts:
        if (found := _RATIO.match(verdict.measured)) is not None:
            is_measured = times.get(verdict.scenario) == "measured"
            ratio = float(found[1])
            yield Timing(student, verdict.check, verdict.scenario, ratio, verdict.status, is_measured, verdict.measured)

"""What one attempt is worth: the points of its checks, and what lateness costs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from gpututor.classroom.check_names import points_in_course
from gpututor.classroom.gradebook.model import Attempt, CheckMark, Lateness, Standing
from gpututor.classroom.handed_in import HandedIn
from gpututor.classroom.rules import Rules
from gpututor.course.exercise import Exercise
from gpututor.grading.journal import GradingKey
from gpututor.grading.report import Outcome, Report, Status, Verdict
from gpututor.grading.words import count

WORST_FIRST = (
    Status.FAILED,
    Status.TOO_SLOW,
    Status.NEEDS_REVIEW,
    Status.INCONCLUSIVE,
    Status.NOT_RUN,
    Status.HELD_BACK,
    Status.PASSED,
)
NOT_YET = "It is not graded yet: `gpututor classroom grade` with --resume does that."


@dataclass(frozen=True)
class Graded:
    """What became of one file that was handed in."""

    key: GradingKey | None = None
    report: Report | None = None
    problem: str = NOT_YET
    """Why there is no report."""


@dataclass(frozen=True)
class Worth:
    """What an exercise's checks are worth by the rules, for every student the same."""

    exercise: str
    of_check: dict[str, float]
    """By the names of the checks that some report has."""
    extra: frozenset[str]
    unseen: float
    """What the author gives for checks that no report of the class came to."""
    is_known: bool = True
    """False where neither a report, nor the course, nor the rules say what it is worth."""

    @property
    def of(self) -> float:
        """What the exercise is worth, without what comes on top."""
        return math.fsum([self.unseen, *(of for name, of in self.of_check.items() if name not in self.extra)])

    @property
    def most(self) -> float:
        """With what comes on top."""
        return math.fsum([self.unseen, *self.of_check.values()])

    def without(self, checks: Iterable[str]) -> float:
        """All points, but for those of `checks`."""
        left_out = set(checks)
        return math.fsum([self.unseen, *(of for name, of in self.of_check.items() if name not in left_out)])


def worth(exercise: str, reports: Iterable[Report], rules: Rules, in_course: Exercise | None = None) -> Worth:
    """Of the checks that the reports on an exercise name, with the rules' points in place of the author's.

    Without a report it is what the course says, as far as `in_course` tells.
    """
    authors: dict[str, float] = {}
    most = 0.0
    for report in reports:
        most = max(most, report.of)
        for verdict in report.verdicts:
            authors[verdict.check] = max(authors.get(verdict.check, 0.0), verdict.of)
    own = rules.of(exercise)
    if not authors and not most:
        told = points_in_course(in_course) if in_course is not None else None
        authors = told or dict.fromkeys(own.points, 0.0)  # nothing better is known
    unseen = max(most - math.fsum(authors.values()), 0.0)
    return Worth(
        exercise,
        {name: own.points.get(name, of) for name, of in authors.items()},
        frozenset(own.extra),
        unseen if unseen > 1e-9 * most else 0.0,
        bool(authors or most),
    )


def attempt_of(handed_in: HandedIn, graded: Graded, of: Worth, rules: Rules) -> Attempt:
    """What the file is worth."""
    lateness = lateness_of(handed_in, rules)
    report = graded.report
    if handed_in.refusal:
        standing, outcome, report = Standing.REFUSED, Outcome.REJECTED, None
    elif report is None:
        standing, outcome = Standing.NOT_GRADED, None
    elif report.outcome is Outcome.REJECTED:
        standing, outcome = Standing.REFUSED, report.outcome
    else:
        standing, outcome = Standing.FINAL if report.final else Standing.OPEN, report.outcome
    if lateness.too_late:  # whatever a person finds, it is worth nothing
        standing = Standing.FINAL
    checks = check_marks(report, of, rules) if report is not None else ()
    earned = math.fsum(check.points for check in checks)
    if report is not None and report.outcome is Outcome.PASSED:
        earned = of.most  # checks that it does not have did not apply to it
    points = _after_lateness(earned, lateness, of, rules)
    most = points
    if not standing.is_mark:
        failed = [check.check for check in checks if check.status.is_failure]
        most = _after_lateness(of.without(failed), lateness, of, rules)
    why = "" if standing is Standing.FINAL else _why_no_mark(handed_in, graded, standing)
    return Attempt(
        handed_in=handed_in,
        standing=standing,
        outcome=outcome,
        report=report,
        key=graded.key,
        checks=checks,
        earned=earned,
        points=points,
        most=max(most, points),
        lateness=lateness,
        reason=" ".join(filter(None, (why, lateness.words))),
    )


def check_marks(report: Report, of: Worth, rules: Rules) -> tuple[CheckMark, ...]:
    """One for each check of the report, in its order; it earns only if it passed in every scenario."""
    by_check: dict[str, list[Verdict]] = {}
    for verdict in report.verdicts:
        by_check.setdefault(verdict.check, []).append(verdict)
    return tuple(_check_mark(name, verdicts, of, rules) for name, verdicts in by_check.items())


def _check_mark(name: str, verdicts: Sequence[Verdict], of: Worth, rules: Rules) -> CheckMark:
    worst = min(verdicts, key=lambda verdict: WORST_FIRST.index(verdict.status))
    points = of.of_check.get(name, 0.0)
    earned = points if worst.status is Status.PASSED else 0.0
    is_hidden = rules.is_hidden(of.exercise, name)
    return CheckMark(name, worst.sentence, worst.status, earned, points, name in of.extra, is_hidden)


def lateness_of(handed_in: HandedIn, rules: Rules) -> Lateness:
    """By the date that holds for the student; where there is no date or no time, what the platform says.

    A file that the platform alone calls late is late by one period.
    """
    policy = rules.late
    due, at = rules.due_for(handed_in.exercise, handed_in.student), submitted_at(handed_in)
    if due is not None and at is not None:
        late_s = max((at - due).total_seconds(), 0.0)
        periods, known = policy.periods(late_s), True
    else:
        late_s, periods, known = 0.0, int(handed_in.late), False
    if not periods:
        return Lateness(late_s)
    if policy.is_too_late(late_s):
        return Lateness(late_s, periods, 100.0, True, "It came too late to be counted.")
    per_cent = policy.per_cent_for(periods)
    told = count(periods, f"started {policy.per}") if known else "as the platform says, counted as one " + policy.per
    words = f"Late ({told})" + (f": {per_cent:g} per cent are taken off." if per_cent else ".")
    return Lateness(late_s, periods, per_cent, False, words)


def submitted_at(handed_in: HandedIn) -> datetime | None:
    """None where nobody knows."""
    try:
        at = datetime.fromisoformat(handed_in.submitted_at)
    except ValueError:
        return None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _after_lateness(earned: float, lateness: Lateness, of: Worth, rules: Rules) -> float:
    """Never below nothing, never above what is to be had."""
    if lateness.too_late:
        return 0.0
    basis = earned if rules.late.taken_from == "earned" else of.of
    left = earned - basis * lateness.per_cent / 100 if lateness.per_cent else earned
    return min(max(rules.rounded(left), 0.0), of.most)


def _why_no_mark(handed_in: HandedIn, graded: Graded, standing: Standing) -> str:
    report = graded.report
    if standing is Standing.REFUSED:
        told = handed_in.refusal or (report.reason if report is not None else "")
        return f"It was refused: {told or 'it cannot be graded.'}"
    if report is None:
        return graded.problem
    match report.outcome:
        case Outcome.INTERNAL_ERROR:
            return f"The grader broke: {report.reason}"
        case Outcome.NOT_GRADABLE_HERE:
            return f"It cannot be graded on that machine: {report.reason}"
    if report.suspicions:
        return f"A person has to look: {report.suspicions[0]}"
    names = {verdict.check: verdict.status for verdict in report.verdicts if verdict.status in _OPEN}
    told = ", ".join(f"{name} ({status})" for name, status in names.items())
    return f"A person has to look, or it has to be graded once more: {told}."


_OPEN = (Status.INCONCLUSIVE, Status.NEEDS_REVIEW)

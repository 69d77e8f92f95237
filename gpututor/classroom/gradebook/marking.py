"""Marks: points, lateness, the attempt that counts, and statistics."""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from gpututor.classroom.gradebook.model import (
    BINS,
    AttemptTiming,
    CheckCount,
    CheckMark,
    ExerciseSummary,
    Lateness,
    Mark,
    MarkStatus,
    ScoredAttempt,
    StudentMarks,
)
from gpututor.classroom.history import HistoryEntry
from gpututor.classroom.rules import OWN, PERIOD_S, Rules
from gpututor.classroom.submissions import Student, Submission
from gpututor.grading.journal import GradingKey
from gpututor.grading.report import Outcome, Report, Status, Verdict
from gpututor.grading.report_text import count

WORST_FIRST = (
    Status.FAILED,
    Status.TOO_SLOW,
    Status.NEEDS_REVIEW,
    Status.INCONCLUSIVE,
    Status.NOT_RUN,
    Status.HELD_BACK,
    Status.PASSED,
)
_OPEN = (Status.INCONCLUSIVE, Status.NEEDS_REVIEW)
MOST_MISPLACED = 3
"""Files of no exercise in an explanation; the review has all."""
_RATIO = re.compile(r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?) × ")
"""Start of a speed check's figures: `0.81 × the baseline`."""
EXTENDED = "The platform marks it as late, without a time. The student has an extension, so nothing is taken off."
NOT_YET = "It is not graded yet: run `gpututor classroom grade` with --resume."


@dataclass(frozen=True)
class GradedAttempt:
    """The report of one submission."""

    key: GradingKey | None = None
    report: Report | None = None
    problem: str = NOT_YET


@dataclass(frozen=True)
class Score:
    """Points of an exercise's checks by the rules, the same for every student."""

    exercise: str
    of_check: dict[str, float]
    """Points by the names of checks in the reports."""
    extra: frozenset[str]
    unseen: float
    """Author's points for checks that are in no report of the class."""
    is_known: bool = True
    """False if neither a report, nor the course, nor the rules give the points."""

    @property
    def of(self) -> float:
        """Points of the exercise without extra points."""
        return self.without(self.extra)

    @property
    def known_of(self) -> float | None:
        return self.of if self.is_known else None

    @property
    def most(self) -> float:
        """Points of the exercise with extra points."""
        return self.without(())

    def without(self, checks: Collection[str]) -> float:
        """Sum all points except those of `checks`."""
        return math.fsum([self.unseen, *(of for name, of in self.of_check.items() if name not in checks)])


def score_attempt(
    exercise: str, reports: Iterable[Report], rules: Rules, authors_points: Callable[[], Mapping[str, float]] = dict
) -> Score:
    """Score the checks in the reports on an exercise, with the rules' points in place of the author's.

    `authors_points`: returns the points of all checks if no report names any; empty if they are unknown.
    """
    authors: dict[str, float] = {}
    most = 0.0
    for report in reports:
        most = max(most, report.of)
        for verdict in report.verdicts:
            authors[verdict.check] = max(authors.get(verdict.check, 0.0), verdict.of)
    own = rules.of(exercise)
    if not authors and not most:
        authors = dict(authors_points()) or dict.fromkeys(own.points, 0.0)  # nothing better is known
    unseen = max(most - math.fsum(authors.values()), 0.0)
    return Score(
        exercise,
        {name: own.points.get(name, of) for name, of in authors.items()},
        frozenset(own.extra),
        unseen if unseen > 1e-9 * most else 0.0,
        bool(authors or most),
    )


def attempt_of(
    submission: Submission, graded: GradedAttempt, of: Score, rules: Rules, slip_days: int = 0
) -> ScoredAttempt:
    """Score a submission, whose due date is moved by `slip_days`."""
    lateness = lateness_of(submission, rules, slip_days)
    report = graded.report
    if submission.refusal:
        status, outcome, report = MarkStatus.REFUSED, Outcome.REJECTED, None
    elif report is None:
        status, outcome = MarkStatus.NOT_GRADED, None
    elif report.outcome is Outcome.REJECTED:
        status, outcome = MarkStatus.REFUSED, report.outcome
    else:
        status, outcome = MarkStatus.FINAL if report.final else MarkStatus.OPEN, report.outcome
    if lateness.too_late:  # it is worth nothing, even if the instructor accepts it
        status = MarkStatus.FINAL
    checks = _check_marks(report, of, rules) if report is not None else ()
    earned = math.fsum(check.points for check in checks)
    if report is not None and report.outcome is Outcome.PASSED:
        earned = of.most  # checks that are not in its report did not apply
    points = most = _after_lateness(earned, lateness, of, rules)
    if not status.is_mark:
        failed = [check.check for check in checks if check.status.is_failure]
        needs = rules.needs_of(of.exercise)
        if not set(needs).isdisjoint(failed):  # the others stay without points
            failed += [name for name in of.of_check if name not in needs]
        most = _after_lateness(of.without(failed), lateness, of, rules)
    why = "" if status is MarkStatus.FINAL else _why_no_mark(submission, graded, status)
    return ScoredAttempt(
        submission=submission,
        status=status,
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


def _check_marks(report: Report, of: Score, rules: Rules) -> tuple[CheckMark, ...]:
    by_check: dict[str, list[Verdict]] = {}
    for verdict in report.verdicts:
        by_check.setdefault(verdict.check, []).append(verdict)
    marks = []
    for name, verdicts in by_check.items():
        worst = min(verdicts, key=lambda verdict: WORST_FIRST.index(verdict.status))
        points = of.of_check.get(name, 0.0)
        earned = points if worst.status is Status.PASSED else 0.0
        is_hidden = rules.is_hidden(of.exercise, name)
        marks.append(CheckMark(name, worst.sentence, worst.status, earned, points, name in of.extra, is_hidden))
    needs = rules.needs_of(of.exercise)
    if all(mark.status is Status.PASSED for mark in marks if mark.check in needs):
        return tuple(marks)
    return tuple(mark if mark.check in needs else _held_back(mark) for mark in marks)


def _held_back(mark: CheckMark) -> CheckMark:
    """Remove the points of a check that passed, because a check that it needs did not. Keep the grader's own checks."""
    if mark.status is not Status.PASSED or mark.check in OWN:
        return mark
    return replace(mark, status=Status.HELD_BACK, points=0.0)


def lateness_of(submission: Submission, rules: Rules, slip_days: int = 0) -> Lateness:
    """Compare with the student's due date, moved by `slip_days`.

    A file that only the platform marks as late is one period late; a slip day covers it. It is too late only if the
    rules accept no late file.
    """
    policy = rules.late
    used = min(slip_days, slip_days_needed(submission, rules))
    late_s = _late_s(submission, rules)
    if late_s is not None:
        late_s = max(late_s - used * PERIOD_S["day"], 0.0)
        periods, known = policy.periods(late_s), True
    else:
        periods, known = int(submission.late and not used), False
        late_s = 60 * policy.grace_minutes + 1.0  # at the least
        if periods and rules.extends(submission.exercise, submission.student):
            return Lateness(words=EXTENDED)
    days = count(used, "slip day")
    if not periods:
        return Lateness(words=f"Late, but on time with {days}." if used else "", slip_days=used)
    if policy.is_too_late(late_s):
        return Lateness(periods, 100.0, True, "It came too late to count.", used)
    per_cent = policy.per_cent_for(periods)
    how_late = count(periods, f"started {policy.per}") if known else f"by the platform, counted as one {policy.per}"
    how_late += f" after {days}" if used else ""
    words = f"Late ({how_late})" + (f": {per_cent:g} percent is taken off." if per_cent else ".")
    return Lateness(periods, per_cent, False, words, used)


def slip_days_needed(submission: Submission, rules: Rules) -> int:
    """Return the number of days by which the due date must move for an attempt to be in time."""
    late_s = _late_s(submission, rules)
    if late_s is not None:
        return rules.late.slip_days(late_s)
    return int(submission.late and not rules.extends(submission.exercise, submission.student))


def _late_s(submission: Submission, rules: Rules) -> float | None:
    """Return the seconds after the student's due date, 0 if in time; None if a time is unknown."""
    due, at = rules.due_for(submission.exercise, submission.student), submitted_at(submission)
    return max((at - due).total_seconds(), 0.0) if due is not None and at is not None else None


def submitted_at(submission: Submission) -> datetime | None:
    """Return the time of submission; None if it is unknown."""
    try:
        at = datetime.fromisoformat(submission.submitted_at)
    except ValueError:
        return None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _after_lateness(earned: float, lateness: Lateness, of: Score, rules: Rules) -> float:
    """Subtract the penalty; the result is between 0 and `of.most`."""
    if lateness.too_late:
        return 0.0
    basis = earned if rules.late.taken_from == "earned" else of.of
    left = earned - basis * lateness.per_cent / 100 if lateness.per_cent else earned
    return min(max(rules.rounded(left), 0.0), of.most)


def _why_no_mark(submission: Submission, graded: GradedAttempt, status: MarkStatus) -> str:
    report = graded.report
    if status is MarkStatus.REFUSED:
        reason = submission.refusal or (report.reason if report is not None else "")
        return f"It was rejected: {reason or 'it cannot be graded.'}"
    if report is None:
        return graded.problem
    match report.outcome:
        case Outcome.INTERNAL_ERROR:
            return f"The grader failed: {report.reason}"
        case Outcome.NOT_GRADABLE_HERE:
            return f"That machine cannot grade it: {report.reason}"
    if report.suspicions:
        return f"Review it: {report.suspicions[0]}"
    names = {verdict.check: verdict.status for verdict in report.verdicts if verdict.status in _OPEN}
    checks = ", ".join(f"{name} ({status})" for name, status in names.items())
    return f"Review it, or grade it again: {checks}."


def mark_of(
    student: str, attempts: Sequence[ScoredAttempt], of: Score, rules: Rules, of_no_exercise: Sequence[str] = ()
) -> Mark:
    """Return the mark for `attempts`, in the order of time. `of_no_exercise`: sources of the student's other files."""
    if not attempts:
        misplaced = _to_no_exercise(of_no_exercise) if of_no_exercise else ""
        reason = f"Nothing was submitted for it; {misplaced}." if misplaced else "Nothing was submitted."
        status = MarkStatus.NOT_HANDED_IN
        return Mark(student, of.exercise, status, 0.0, of.known_of, reason=reason, misplaced=misplaced)
    limit = rules.max_attempts_for(of.exercise)
    allowed = [attempt for attempt in attempts if limit is None or attempt.submission.attempt <= limit]
    if not allowed:  # the platform keeps the last attempt only
        points, counted, status = 0.0, attempts[0], MarkStatus.OPEN
    elif rules.attempts == "last":
        in_time = [attempt for attempt in allowed if not attempt.lateness.too_late]
        counted = (in_time or allowed)[-1]
        points, status = counted.points, counted.status
    else:
        counted = _best(allowed)
        points, status = max(attempt.points for attempt in allowed), counted.status
    mark = Mark(student, of.exercise, status, points, of.known_of, tuple(attempts), counted)
    which = attempt_words(mark, rules, "needs a decision first")
    return replace(mark, reason=" ".join(filter(None, (which, counted.reason if allowed else ""))))


def attempt_words(mark: Mark, rules: Rules, undecided: str) -> str:
    """Return a sentence on the attempt that counts, and why; empty for a single attempt.

    `undecided`: the verb if the mark is not final.
    """
    counted, limit = mark.counted, rules.max_attempts_for(mark.exercise)
    if counted is None:
        return ""
    number, total = (attempt.submission.attempt for attempt in (counted, mark.attempts[-1]))
    if limit is not None and number > limit:
        first = count(limit, "attempt counts", "attempts count")
        return f"Only the first {first}, but the earliest submitted file is from attempt {number}."
    if len(mark.attempts) == 1:
        return ""
    if mark.status is not MarkStatus.FINAL:
        return f"Attempt {number} of {total} {undecided}."
    in_time = " on-time attempt" if any(attempt.lateness.too_late for attempt in mark.attempts) else ""
    first = f" of the first {limit}, which may count" if limit is not None and total > limit else ""
    return f"Attempt {number} of {total} counts: the {rules.attempts}{in_time}{first}."


def marked_by_hand(mark: Mark, entry: HistoryEntry) -> Mark:
    """Replace a computed mark by the instructor's, which is final whatever the checks say."""
    points = entry.points if entry.points is not None else mark.points
    by_hand = replace(mark, status=MarkStatus.FINAL, points=points, by_hand=entry, computed=mark)
    reason = " ".join(filter(None, (f"By hand: {by_hand.by_hand_words.rstrip('.')}.", mark.reason)))
    return replace(by_hand, reason=reason)


def _to_no_exercise(sources: Sequence[str]) -> str:
    more = len(sources) - MOST_MISPLACED
    named = [*sources[:MOST_MISPLACED], *([f"{more} more"] if more > 0 else [])]
    names = " and ".join(filter(None, (", ".join(named[:-1]), named[-1])))
    return f"{names} {'belongs' if len(sources) == 1 else 'belong'} to no exercise"


def _best(attempts: Sequence[ScoredAttempt]) -> ScoredAttempt:
    """Return the best final attempt, or an undecided attempt that may become better; without both, the last attempt."""
    in_time = [attempt for attempt in attempts if not attempt.lateness.too_late]
    final = [attempt for attempt in in_time if attempt.status is MarkStatus.FINAL]
    best = max(final, key=lambda attempt: attempt.points, default=None)
    undecided = [attempt for attempt in in_time if attempt.status in (MarkStatus.OPEN, MarkStatus.NOT_GRADED)]
    if best is not None:
        undecided = [attempt for attempt in undecided if attempt.most > best.points]
    if undecided:
        return max(undecided, key=lambda attempt: (attempt.most, attempt.points))
    return best if best is not None else (in_time or attempts)[-1]


def student_marks(
    student: Student, marks: Sequence[Mark], rules: Rules, section: str = "", slip_days: int = 0
) -> StudentMarks:
    """Sum up a student's marks, one for each exercise in the order of the gradebook."""
    counting = [mark for mark in marks if mark.exercise not in rules.drop]
    dropped = {mark.exercise for mark in marks} - {mark.exercise for mark in counting}
    worth_something = [mark for mark in counting if mark.of > 0]
    lowest = sorted(worth_something, key=lambda mark: mark.share)
    left = max(len(worth_something) - 1, 0)  # one mark always counts
    dropped |= {mark.exercise for mark in lowest[: min(rules.drop_lowest, left)]}
    counted = [mark for mark in counting if mark.exercise not in dropped]
    weights = {mark.exercise: rules.of(mark.exercise).weight for mark in counted}
    points = math.fsum(mark.points * weights[mark.exercise] for mark in counted)
    of: float | None = math.fsum(mark.of * weights[mark.exercise] for mark in counted)
    if rules.scale is not None:
        points, of = points / of * rules.scale if of else 0.0, rules.scale
    elif any(mark.known_of is None for mark in counted):
        of = None
    return StudentMarks(
        student=student,
        marks=tuple(replace(mark, is_dropped=mark.exercise in dropped) for mark in marks),
        points=rules.rounded(points),
        known_of=of,
        # An open mark may change which marks are the lowest. A scale needs the points of all exercises.
        open=sum(not mark.status.is_mark or (mark.known_of is None and rules.scale is not None) for mark in counting),
        section=section,
        slip_days=slip_days,
    )


def summary(
    label: str, title: str, marks: Sequence[Mark], of: Score, rules: Rules, *, counts_missing: bool = False
) -> ExerciseSummary:
    """Summarize the marks of all students at one exercise. `counts_missing`: means include missing files, as 0."""
    exercise = of.exercise
    counted = [mark.counted for mark in marks if mark.counted is not None]
    counting = (MarkStatus.FINAL, MarkStatus.NOT_HANDED_IN) if counts_missing else (MarkStatus.FINAL,)
    shares = [min(mark.share, 1.0) for mark in marks if mark.status in counting]
    outcomes = Counter(attempt.outcome for attempt in counted if attempt.outcome is not None)
    reports = [(attempt.submission.student, attempt.report) for attempt in counted if attempt.report is not None]
    timings = [timing for student, report in reports for timing in timings_of(student, report)]
    return ExerciseSummary(
        exercise=exercise,
        label=label,
        title=title,
        known_of=of.known_of,
        extra=of.most - of.of,
        weight=rules.of(exercise).weight,
        due=rules.due_for(exercise),
        is_dropped=exercise in rules.drop,
        handed_in=len(counted),
        without_mark=sum(not mark.status.is_mark for mark in marks),
        outcomes=tuple(sorted(outcomes.items(), key=lambda pair: (-pair[1], pair[0]))),
        distribution=distribution(shares),
        mean_share=statistics.fmean(shares) if shares else None,
        median_share=statistics.median(shares) if shares else None,
        checks=_check_counts(counted),
        timings=tuple(sorted(timings, key=lambda timing: (timing.ratio, timing.student, timing.scenario))),
    )


def distribution(shares: Iterable[float]) -> tuple[int, ...]:
    """Count shares, 0 to 1, in `BINS` equal parts; rounding errors do not move a whole tenth to a lower part."""
    counts = Counter(min(int(share * BINS + 1e-9), BINS - 1) for share in shares)
    return tuple(counts[position] for position in range(BINS))


def _check_counts(attempts: Sequence[ScoredAttempt]) -> tuple[CheckCount, ...]:
    by_name: dict[str, list[CheckMark]] = {}
    for attempt in attempts:
        for check in attempt.checks:
            by_name.setdefault(check.check, []).append(check)
    counts = [_check_count(checks[0], Counter(check.status for check in checks)) for checks in by_name.values()]
    return tuple(sorted(counts, key=lambda check_count: (-check_count.failed, check_count.check)))


def _check_count(check: CheckMark, statuses: Counter[Status]) -> CheckCount:
    return CheckCount(
        check=check.check,
        sentence=check.sentence,
        of=check.of,
        is_extra=check.is_extra,
        is_hidden=check.is_hidden,
        passed=statuses[Status.PASSED],
        failed=statuses[Status.FAILED] + statuses[Status.TOO_SLOW],
        open=statuses[Status.INCONCLUSIVE] + statuses[Status.NEEDS_REVIEW],
        not_run=statuses[Status.NOT_RUN],
        held_back=statuses[Status.HELD_BACK],
    )


def timings_of(student: str, report: Report) -> Iterator[AttemptTiming]:
    """Yield the times that checks compared with a baseline's, if their figures have a ratio."""
    runs = {run.scenario: run for run in report.runs}
    for verdict in report.verdicts:
        if (match := _RATIO.match(verdict.measured)) is not None:
            run = runs.get(verdict.scenario)
            is_measured, device = (run.times == "measured", run.device) if run is not None else (False, "")
            figures = (float(match[1]), verdict.status, is_measured, verdict.measured, device)
            yield AttemptTiming(student, verdict.check, verdict.scenario, *figures)

"""What students are told of what they handed in: nothing of checks that are hidden from them, nothing of suspicions.

The one place that decides on it: the Markdown of `classroom feedback`, Gradescope's output and the students' reports on
the HTML page are all made of this. Whoever writes it escapes it: all texts are plain text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpututor.classroom.gradebook.cells import number, number_of
from gpututor.classroom.gradebook.model import Attempt, CheckMark, ExerciseSummary, Mark, Standing, StudentMarks
from gpututor.classroom.rules import Rules
from gpututor.grading.report import Outcome, Report, Status, Verdict
from gpututor.grading.words import DOES_NOT_RUN, OUTCOME_TITLES, count, mark, own_gpu
from gpututor.plain_text import shortened

MORE_CHECKS = "There are more checks than are shown here; they count for the mark."
"""Said of every submission of an exercise that has hidden checks, whatever they found."""
NO_MARK_YET = "There is no mark yet: a person will look at it first, or it will be graded once more."
"""Said of everything that is open, whatever the reason."""
UNDECIDED = "○ not decided yet"
LONGEST_OUTPUT = 2000
"""Characters of what a submission printed in one run."""
_OWN = ("loads", "runs")
_STOPPED = (Outcome.ERROR, Outcome.TIMEOUT, Outcome.OUT_OF_MEMORY, Outcome.CRASHED)
_OPEN = (Status.INCONCLUSIVE, Status.NEEDS_REVIEW)


@dataclass(frozen=True)
class Finding:
    """What was found wrong, in one scenario or in several alike."""

    scenarios: tuple[str, ...]
    """Their names; empty where the exercise has only one."""
    expected: str
    got: str
    line: int | None
    """Of the file that was handed in, from 1."""
    why: str
    advice: str


@dataclass(frozen=True)
class ShownCheck:
    """One check, over all scenarios."""

    check: str
    sentence: str
    """What must be true."""
    word: str
    """`✓ passed`, `✗ failed` …: never a colour alone."""
    is_passed: bool
    points: float
    of: float
    is_extra: bool
    measured: tuple[str, ...]
    """Figures, also when it passed."""
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Printed:
    """What one run printed."""

    scenario: str
    """Its name; empty where the exercise has only one."""
    traceback: str
    """Empty where there was no exception."""
    output: str
    is_cut: bool
    """Whether it printed more."""


@dataclass(frozen=True)
class ForStudent:
    """One exercise, for one student."""

    outcome: str
    """In a few words: `✗ Failed: 2 of 4 checks passed`."""
    points: str
    """`2.7 of 4 points`; what is no mark yet has no number."""
    notes: tuple[str, ...]
    """Sentences: which attempt counts, what lateness cost, why there is no mark."""
    checks: tuple[ShownCheck, ...]
    """In the order of the report."""
    printed: tuple[Printed, ...]
    """Nothing where checks are hidden: a program can print what only they would tell."""

    @property
    def is_all_right(self) -> bool:
        """Whether all that is shown has passed."""
        return bool(self.checks) and all(check.is_passed for check in self.checks)


def for_student(given: Mark, exercise: ExerciseSummary, rules: Rules) -> ForStudent:
    """What may be told of a mark; `exercise` is the one that it is for."""
    attempt = given.counted
    report = attempt.report if attempt is not None else None
    verdicts = _shown(report.verdicts, rules, exercise.exercise) if report is not None else ()
    is_hiding = has_hidden(exercise, rules, report)
    checks = tuple(_checks(verdicts, attempt.checks)) if attempt is not None else ()
    return ForStudent(
        outcome=_outcome(given, report, checks, verdicts, is_hiding),
        points=_points(given),
        notes=tuple(_notes(given, attempt, is_hiding)),
        checks=checks,
        printed=() if is_hiding or report is None else tuple(_printed(report)),
    )


def total_for_student(marks: StudentMarks) -> str:
    """`Total: 12 of 20 points`; where marks are open, that there is no total yet."""
    if marks.final:
        return f"Total: {number(marks.points)} of {number_of(marks.known_of)} points"
    return f"No total yet: {count(marks.open, 'exercise')} without a mark"


def has_hidden(exercise: ExerciseSummary, rules: Rules, report: Report | None) -> bool:
    """Whether the exercise has checks that are hidden, whether or not this report came to them."""
    names = [check.check for check in exercise.checks]
    names += [verdict.check for verdict in report.verdicts] if report is not None else []
    return bool(rules.of(exercise.exercise).hidden) or any(rules.is_hidden(exercise.exercise, name) for name in names)


def _shown(verdicts: Sequence[Verdict], rules: Rules, exercise: str) -> tuple[Verdict, ...]:
    """Leave out hidden verdicts, and those that were perhaps not run or held back because a hidden check failed."""
    left = [verdict for verdict in verdicts if not rules.is_hidden(exercise, verdict.check)]
    if len(left) == len(verdicts):
        return tuple(left)
    stopped = {each.scenario for each in left if each.check in _OWN and each.status.is_failure}
    unexplained = {
        each.check
        for each in left
        if each.status is Status.HELD_BACK or (each.status is Status.NOT_RUN and each.scenario not in stopped)
    }
    return tuple(verdict for verdict in left if verdict.check not in unexplained)


def _outcome(
    given: Mark, report: Report | None, checks: Sequence[ShownCheck], verdicts: Sequence[Verdict], is_hiding: bool
) -> str:
    match given.standing:
        case Standing.NOT_HANDED_IN:
            return "– Nothing handed in for it" if given.misplaced else "– Nothing handed in"
        case Standing.NOT_GRADED:
            return "○ Not graded yet"
        case Standing.REFUSED:
            return "○ Could not be graded"
        case Standing.OPEN:
            return "○ No mark yet"
    if not checks or report is None:
        return "○ Graded" if report is not None else "○ Could not be graded"
    passed = sum(check.is_passed for check in checks)
    if passed == len(checks):
        return f"✓ {'All that is shown here' if is_hiding else 'All'} passed"
    told = f"{passed} of {count(len(checks), 'check')}{' shown here' if is_hiding else ''} passed"
    return f"{_title(report, verdicts)}: {told}"


def _title(report: Report, verdicts: Sequence[Verdict]) -> str:
    """The outcome that the shown checks alone would have."""
    statuses = {verdict.status for verdict in verdicts}
    failed = {verdict.check for verdict in verdicts if verdict.status is Status.FAILED}
    own = {verdict.check for verdict in report.verdicts if verdict.check in _OWN}
    is_stopped = bool(failed & set(_OWN)) and own <= {verdict.check for verdict in verdicts}
    if is_stopped and report.outcome in _STOPPED:
        is_unready = report.outcome is Outcome.ERROR and report.loads_nowhere
        return DOES_NOT_RUN if is_unready else OUTCOME_TITLES[report.outcome]
    if failed:
        return OUTCOME_TITLES[Outcome.FAILED]
    return OUTCOME_TITLES[Outcome.TOO_SLOW] if Status.TOO_SLOW in statuses else "○ Not decided yet"


def _points(given: Mark) -> str:
    return f"{number(given.points)} of {number_of(given.known_of)} points" if given.standing.is_mark else "no mark yet"


def _notes(given: Mark, attempt: Attempt | None, is_hiding: bool) -> Iterable[str]:
    if given.is_dropped:
        yield "It does not count."
    if attempt is None:
        if given.misplaced:
            yield f"{given.misplaced}: tell your instructor what is meant."
        return
    if len(given.attempts) > 1:
        counts = "counts" if given.standing is Standing.FINAL else "is looked at first"
        yield f"Attempt {given.attempts.index(attempt) + 1} of {len(given.attempts)} {counts}."
    if given.standing is Standing.REFUSED:
        yield f"It was refused: {_why_refused(attempt)}"
    elif given.standing is Standing.NOT_GRADED or attempt.report is None:
        yield "It is not graded yet."
    elif given.standing is Standing.OPEN:
        yield NO_MARK_YET
    if attempt.report is not None and (own := own_gpu(attempt.report)):
        yield f"The exercise is made for a {own}, and was graded on another GPU model."
    if attempt.lateness.words:
        yield attempt.lateness.words
        if given.standing is Standing.FINAL and attempt.deduction:
            yield f"That is {number(attempt.deduction)} of the {number(attempt.earned)} points that it earned."
    if is_hiding:
        yield MORE_CHECKS


def _why_refused(attempt: Attempt) -> str:
    reason = attempt.report.reason if attempt.report is not None else ""
    return attempt.handed_in.refusal or reason or "it cannot be graded."


def _checks(verdicts: Sequence[Verdict], marks: Sequence[CheckMark]) -> Iterable[ShownCheck]:
    has_several = len({verdict.scenario for verdict in verdicts}) > 1
    by_check: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        by_check.setdefault(verdict.check, []).append(verdict)
    for one in marks:
        if (found := by_check.get(one.check)) is None:
            continue
        is_open = one.status in _OPEN
        yield ShownCheck(
            check=one.check,
            sentence=one.sentence,
            word=UNDECIDED if is_open else mark(one.status),
            is_passed=one.status is Status.PASSED,
            points=one.points,
            of=one.of,
            is_extra=one.is_extra,
            measured=tuple(dict.fromkeys(each.measured for each in found if each.measured and not is_open)),
            findings=tuple(_findings(found, has_several)),
        )


def _findings(verdicts: Sequence[Verdict], has_several: bool) -> Iterable[Finding]:
    """Of what failed; what a person has to look at gives no details."""
    scenarios: dict[tuple[str, str, int | None, str, str], list[str]] = {}
    for each in verdicts:
        if each.status.is_failure:
            key = (each.expected, each.got, each.line, each.why, each.advice)
            scenarios.setdefault(key, []).append(each.scenario)
    for (expected, got, line, why, advice), where in scenarios.items():
        yield Finding(tuple(where) if has_several else (), expected, got, line, why, advice)


def _printed(report: Report) -> Iterable[Printed]:
    for run in report.runs:
        if run.output or run.traceback:
            is_cut = run.output_dropped_bytes > 0 or len(run.output) > LONGEST_OUTPUT
            scenario = run.scenario if len(report.runs) > 1 else ""
            output = shortened(run.output, LONGEST_OUTPUT)
            yield Printed(scenario, shortened(run.traceback, LONGEST_OUTPUT), output, is_cut)

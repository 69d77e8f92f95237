"""Feedback: the student's view of a report, and its Markdown.

`StudentView` alone decides what students may know. The Markdown of `classroom feedback`, Gradescope's output and the
students' reports on the HTML page are made from it. Its texts are plain text, which the code that shows them
escapes. Markdown has them in fenced blocks that they cannot end, in code spans, or with escaped punctuation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.gradebook.leaderboard import Leaderboard, standing_of
from gpututor.classroom.gradebook.marking import attempt_words, submitted_at
from gpututor.classroom.gradebook.model import (
    CheckMark,
    ExerciseSummary,
    Gradebook,
    Mark,
    MarkStatus,
    ScoredAttempt,
    StudentMarks,
)
from gpututor.classroom.markdown import code, fenced, text
from gpututor.classroom.rules import Rules
from gpututor.classroom.submissions import Submission
from gpututor.classroom.tables import number
from gpututor.course.notebooks import line_words
from gpututor.grading.report import Outcome, Report, Status, Verdict
from gpututor.grading.report_text import DOES_NOT_RUN, OUTCOME_TITLES, count, mark, own_gpu
from gpututor.text import escape_control_chars, lines_of, truncate, with_newlines
from gpututor.translation import ENGLISH, Catalog, catalog

MORE_CHECKS = "Some checks are not shown here; they count for the mark."
"""Note on every submission for an exercise with hidden checks, whatever they found."""
NO_MARK_YET = "It is under review: an instructor will look at it first, or it will be graded again."
"""Note on every open mark, whatever the reason."""
UNDECIDED = "○ not decided yet"
LONGEST_OUTPUT = 2000
"""Characters of a submission's output in one run."""
LINES_OF_OUTPUT = 40
"""Lines of output, and of a traceback."""
LONGEST_LINE = 160
"""Characters of a line of a submission."""
_OWN = ("loads", "runs")
_STOPPED = (Outcome.ERROR, Outcome.TIMEOUT, Outcome.OUT_OF_MEMORY, Outcome.CRASHED)
_OPEN = (Status.INCONCLUSIVE, Status.NEEDS_REVIEW)
_WITHOUT_MARK = {
    MarkStatus.NOT_GRADED: "○ Not graded yet",
    MarkStatus.REFUSED: "○ Could not be graded",
    MarkStatus.OPEN: "○ Under review",
}
_PLAIN_NAME = re.compile(r"[^\W_]+(?:[ '’-][^\W_]+)*")
_ABSOLUTE_PATH = re.compile(r"(?<![\w.:/…-])/(?:[\w.+@~-]+/)+([\w.+@~-]+)")
_HEADING = re.compile(r"#{1,6} +(.*)")


@dataclass(frozen=True)
class FeedbackFinding:
    """A failure of a check, the same in one or several scenarios."""

    scenarios: tuple[str, ...]
    """Names of the scenarios; empty if the exercise has only one."""
    expected: str
    got: str
    line: int | None
    """Line of the submission, from 1."""
    why: str
    advice: str


@dataclass(frozen=True)
class ShownCheck:
    """A check, over all scenarios."""

    check: str
    sentence: str
    word: str
    """`✓ passed`, `✗ failed` …: never a color alone."""
    is_passed: bool
    points: float
    of: float
    is_extra: bool
    measured: tuple[str, ...]
    """Figures, including those of a passed check."""
    findings: tuple[FeedbackFinding, ...]


@dataclass(frozen=True)
class RunOutput:
    """Output of one run."""

    scenario: str
    """Name of the scenario; empty if the exercise has only one."""
    traceback: str
    """Empty without an exception."""
    output: str
    is_cut: bool


@dataclass(frozen=True)
class StudentView:
    """An exercise, for a student."""

    outcome: str
    """`✗ Failed: 2 of 4 checks passed`."""
    points: str
    """`2.7 of 4 points`; no number without a mark."""
    notes: tuple[str, ...]
    checks: tuple[ShownCheck, ...]
    printed: tuple[RunOutput, ...]
    """Output; empty during a review, and if checks are hidden, because a program could print the inputs of these."""

    @property
    def has_passed(self) -> bool:
        """True if all shown checks have passed."""
        return bool(self.checks) and all(check.is_passed for check in self.checks)


def student_view(given: Mark, exercise: ExerciseSummary, rules: Rules) -> StudentView:
    """Return the student's view of a mark at `exercise`; without checks and output while it is reviewed."""
    attempt = given.counted
    report = attempt.report if attempt is not None else None
    is_reviewed = given.status is MarkStatus.OPEN
    verdicts = _shown(report.verdicts, partial(rules.is_hidden, exercise.exercise)) if report is not None else ()
    is_hiding = has_hidden(exercise, rules, report)
    checks = tuple(_checks(verdicts, attempt.checks)) if attempt is not None and not is_reviewed else ()
    points = f"{number(given.points)} of {number(given.known_of)} points"
    return StudentView(
        outcome=_outcome(given, report, checks, verdicts, is_hiding),
        points=points if given.status.is_mark else "no mark yet",
        notes=tuple(_notes(given, attempt, rules, is_hiding)),
        checks=checks,
        printed=() if is_hiding or is_reviewed or report is None else tuple(_printed_output(report)),
    )


def total_for_student(marks: StudentMarks) -> str:
    """Return `Total: 12 of 20 points`, or that there is no total yet."""
    if marks.final:
        return f"Total: {number(marks.points)} of {number(marks.known_of)} points"
    return f"No total yet: {count(marks.open, 'exercise')} without a mark"


def slip_days_for_student(gradebook: Gradebook, marks: StudentMarks) -> str:
    """Return `Slip days: 2 used, 3 left.`; empty if the rules give none."""
    used, left = gradebook.slip_days_of(marks)
    return f"Slip days: {used} used, {left} left." if used or left else ""


def has_hidden(exercise: ExerciseSummary, rules: Rules, report: Report | None) -> bool:
    """Return True if the exercise has hidden checks, even if this report has none of them."""
    names = [check.check for check in exercise.checks]
    names += [verdict.check for verdict in report.verdicts] if report is not None else []
    return bool(rules.of(exercise.exercise).hidden) or any(rules.is_hidden(exercise.exercise, name) for name in names)


def checks_before_due(report: Report | None, exercise: str, rules: Rules) -> frozenset[str]:
    """Return the names of the checks that students may see before the due date."""
    verdicts = report.verdicts if report is not None else ()
    return frozenset(verdict.check for verdict in _shown(verdicts, partial(rules.is_hidden_before_due, exercise)))


def _shown(verdicts: Sequence[Verdict], is_hidden: Callable[[str], bool]) -> tuple[Verdict, ...]:
    """Remove hidden verdicts, and checks that may not have run or were held back because a hidden check failed."""
    left = [verdict for verdict in verdicts if not is_hidden(verdict.check)]
    if len(left) == len(verdicts):
        return tuple(left)
    stopped = {verdict.scenario for verdict in left if verdict.check in _OWN and verdict.status.is_failure}
    unexplained = {
        verdict.check
        for verdict in left
        if verdict.status is Status.HELD_BACK or (verdict.status is Status.NOT_RUN and verdict.scenario not in stopped)
    }
    return tuple(verdict for verdict in left if verdict.check not in unexplained)


def _outcome(
    given: Mark, report: Report | None, checks: Sequence[ShownCheck], verdicts: Sequence[Verdict], is_hiding: bool
) -> str:
    if given.counted is None:
        return "– Nothing submitted for it" if given.misplaced else "– Nothing submitted"
    if given.status is not MarkStatus.FINAL:
        return _WITHOUT_MARK[given.status]
    if not checks or report is None:
        return "○ Graded" if report is not None else "○ Could not be graded"
    passed = sum(check.is_passed for check in checks)
    if passed == len(checks):
        return f"✓ {'All that is shown here' if is_hiding else 'All'} passed"
    shown = " shown here" if is_hiding else ""
    return f"{_title(report, verdicts)}: {passed} of {count(len(checks), 'check')}{shown} passed"


def _title(report: Report, verdicts: Sequence[Verdict]) -> str:
    """Return the outcome of the shown checks alone."""
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


def _notes(given: Mark, attempt: ScoredAttempt | None, rules: Rules, is_hiding: bool) -> Iterable[str]:
    if given.is_dropped:
        yield "It does not count."
    if given.by_hand is not None:
        yield f"Your instructor set this mark by hand: {given.by_hand.why.rstrip('.')}."
        if given.computed is not None and given.computed.status is MarkStatus.FINAL:
            yield f"The checks alone gave {number(given.computed.points)}."
    if attempt is None:
        if given.misplaced:
            yield f"{given.misplaced}: tell your instructor which exercise it is for."
        return
    if which := attempt_words(given, rules, "is reviewed first"):
        yield which
    status = given.computed.status if given.computed is not None else given.status
    if status is MarkStatus.REFUSED:
        reason = attempt.report.reason if attempt.report is not None else ""
        yield f"It was rejected: {without_folders(attempt.submission.refusal or reason or 'it cannot be graded.')}"
    elif status is MarkStatus.NOT_GRADED or attempt.report is None:
        yield "It is not graded yet."
    elif given.status is MarkStatus.OPEN:
        yield NO_MARK_YET
    if attempt.submission.left_out:
        yield f"These lines of your notebook are not part of the program: {attempt.submission.left_out_words}."
    if attempt.report is not None and (own := own_gpu(attempt.report)):
        yield f"The exercise is made for a {own}, and was graded on another GPU model."
    if attempt.lateness.words:
        yield attempt.lateness.words
        if given.status is MarkStatus.FINAL and attempt.deduction and given.by_hand is None:
            yield f"That is {number(attempt.deduction)} of the {number(attempt.earned)} points that it earned."
    if is_hiding:
        yield MORE_CHECKS


def _checks(verdicts: Sequence[Verdict], marks: Sequence[CheckMark]) -> Iterable[ShownCheck]:
    has_several = len({verdict.scenario for verdict in verdicts}) > 1
    by_check: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        by_check.setdefault(verdict.check, []).append(verdict)
    for check in marks:
        if (of_check := by_check.get(check.check)) is None:
            continue
        is_open = check.status in _OPEN
        measured = [verdict.measured for verdict in of_check if verdict.measured and not is_open]
        yield ShownCheck(
            check=check.check,
            sentence=check.sentence,
            word=UNDECIDED if is_open else mark(check.status),
            is_passed=check.status is Status.PASSED,
            points=check.points,
            of=check.of,
            is_extra=check.is_extra,
            measured=tuple(dict.fromkeys(measured)),
            findings=tuple(_findings(of_check, has_several)),
        )


def _findings(verdicts: Sequence[Verdict], has_several: bool) -> Iterable[FeedbackFinding]:
    """Yield the failures. A verdict that needs review gives no details."""
    scenarios: dict[tuple[str, str, int | None, str, str], list[str]] = {}
    for verdict in verdicts:
        if verdict.status.is_failure:
            expected, got = map(without_folders, (verdict.expected, verdict.got))
            details = (expected, got, verdict.line, verdict.why, verdict.advice)
            scenarios.setdefault(details, []).append(verdict.scenario)
    for details, names in scenarios.items():
        yield FeedbackFinding(tuple(names) if has_several else (), *details)


def _printed_output(report: Report) -> Iterable[RunOutput]:
    for run in report.runs:
        if run.output or run.traceback:
            is_cut = run.output_dropped_bytes > 0 or len(run.output) > LONGEST_OUTPUT
            scenario = run.scenario if len(report.runs) > 1 else ""
            traceback, output = (
                truncate(without_folders(words), LONGEST_OUTPUT) for words in (run.traceback, run.output)
            )
            yield RunOutput(scenario, traceback, output, is_cut)


def without_folders(words: str) -> str:
    """Replace `/usr/lib/python3/x.py` by `…/x.py`: folders are those of the machine that graded."""
    return _ABSOLUTE_PATH.sub(r"…/\1", words)


class SubmittedLines:
    """Lines of the submissions in the folder of a class; none of missing files."""

    def __init__(self, folder: ClassFolder, shown: Callable[[str], str] = str) -> None:
        """Read lines when they are needed. `shown`: returns a line as it is shown, such as without names."""
        self._shown = shown
        self._lines = lru_cache(maxsize=64)(lambda sha256: lines_of(folder.read_submission(sha256) or ""))

    def line(self, sha256: str, number: int) -> str:
        """Return a line, from 1, stripped and cut to `LONGEST_LINE`; empty if it is missing."""
        lines = self._lines(sha256)
        return truncate(self._shown(lines[number - 1].strip()), LONGEST_LINE) if 0 < number <= len(lines) else ""

    def place(self, sha256: str, number: int) -> str:
        """Return the number of a line, and its place in the student's notebook."""
        return line_words(self._lines(sha256), number)


def translated(view: StudentView, say: Catalog) -> StudentView:
    """Return the view with its sentences in another language; names and output stay as they are."""

    def finding(original: FeedbackFinding) -> FeedbackFinding:
        expected, got = say(original.expected), say(original.got)
        return replace(original, expected=expected, got=got, why=say(original.why), advice=say(original.advice))

    def check(original: ShownCheck) -> ShownCheck:
        measured, findings = tuple(map(say, original.measured)), tuple(map(finding, original.findings))
        return replace(
            original, sentence=say(original.sentence), word=say(original.word), measured=measured, findings=findings
        )

    return replace(
        view,
        outcome=say(view.outcome),
        points=say(view.points),
        notes=tuple(map(say, view.notes)),
        checks=tuple(map(check, view.checks)),
    )


def feedback(
    gradebook: Gradebook,
    marks: StudentMarks,
    lines: SubmittedLines,
    hints: Mapping[str, Sequence[str]],
    boards: Sequence[Leaderboard] = (),
    say: Catalog | None = None,
) -> str:
    """Write the Markdown for one student, in English or the language of `say`.

    `hints`: hints by exercise, Markdown of the course.
    """
    say = say or catalog(ENGLISH)
    student = marks.student
    name = f"{_name(student.name)} ({code(student.id)})" if student.name else code(student.id)
    parts = [f"# {say('Feedback for')} {name}", f"**{text(say(total_for_student(marks)))}**"]
    parts += [text(say(words))] if (words := slip_days_for_student(gradebook, marks)) else []
    rows = [f"| {say('Exercise')} | {say('Mark')} | |", "| --- | --- | --- |"]
    sections: list[str] = []
    for exercise, exercise_mark in zip(gradebook.exercises, marks.marks, strict=True):
        view = translated(student_view(exercise_mark, exercise, gradebook.rules), say)
        rows.append(f"| {text(exercise.numbered_title)} | {text(view.points)} | {text(view.outcome)} |")
        own_hints = hints.get(exercise.exercise, ())
        sections += _exercise(exercise, exercise_mark, view, lines, own_hints, gradebook.rules, say)
    return "\n\n".join([*parts, "\n".join(rows), *_places(gradebook, student.id, boards, say), *sections]) + "\n"


def _places(gradebook: Gradebook, student: str, boards: Sequence[Leaderboard], say: Catalog) -> Iterator[str]:
    """Yield the student's places on leaderboards, and their pseudonym there."""
    places = list(standing_of(boards, student))
    if places and gradebook.has_names and gradebook.pseudonyms is not None:
        yield f"{say('On pages with pseudonyms you are')} {code(gradebook.pseudonyms.of(student))}."
    if places:
        yield "\n".join([say("Your places on leaderboards:"), "", *(f"- {text(say(place))}" for place in places)])


def _exercise(
    exercise: ExerciseSummary,
    mark: Mark,
    view: StudentView,
    lines: SubmittedLines,
    hints: Sequence[str],
    rules: Rules,
    say: Catalog,
) -> Iterator[str]:
    yield f"## {text(exercise.numbered_title)}"
    yield f"**{text(view.outcome)}** · {text(view.points)}"
    counted = mark.counted
    if counted is not None:
        yield f"{say('Submitted')}: {code(counted.submission.source)}{text(_when(counted.submission, rules, say))}"
    if view.notes:
        yield text(" ".join(view.notes))
    sha256 = counted.submission.sha256 if counted is not None else ""
    for check in view.checks:
        if check.findings:
            yield from _check(check, sha256, lines, say)
    if others := [check for check in view.checks if not check.findings]:
        yield "\n".join(_in_a_line(check, say) for check in others)
    for printed in view.printed:
        yield from _printed(printed, say)
    if not view.has_passed:
        for place, hint in enumerate(hints, 1):
            yield _hint(hint, place, say)


def _when(submission: Submission, rules: Rules, say: Catalog) -> str:
    """Return the times of submission and of the due date, in the time zone of the due date in the rules."""
    at, due = submitted_at(submission), rules.due_for(submission.exercise, submission.student)
    if at is None:
        return ""
    zone = (rules.of(submission.exercise).due or rules.due or due or at).tzinfo
    words = f", {at.astimezone(zone).isoformat(' ', 'seconds')}"
    return words + (f"; {say('due')} {due.astimezone(zone).isoformat(' ', 'seconds')}" if due else "")


def _in_a_line(check: ShownCheck, say: Catalog) -> str:
    measured = f" ({text('; '.join(check.measured))})" if check.measured else ""
    return f"- {check.word}: {text(check.sentence)}{_worth(check, say)}{measured}"


def _check(check: ShownCheck, sha256: str, lines: SubmittedLines, say: Catalog) -> Iterator[str]:
    yield f"### {text(check.word)}: {text(check.sentence)}{_worth(check, say)}"
    for finding in check.findings:
        rows = [("Expected", finding.expected), ("Got", finding.got)]
        rows = [(label, value) for label, value in rows if value]
        if finding.line is not None:
            rows.append((f"Line {lines.place(sha256, finding.line)}", lines.line(sha256, finding.line)))
        rows += [("Measured", measured) for measured in check.measured]
        if where := "; ".join(finding.scenarios):
            yield f"{say('With')} {text(where)}:"
        yield fenced("\n".join(_row(say(label), value) for label, value in rows))
        if finding.why:
            yield f"{say('Why')}: {text(finding.why)}"
        if finding.advice:
            yield f"{say('What to try')}: {text(finding.advice)}"


def _worth(check: ShownCheck, say: Catalog) -> str:
    if not check.of:
        return ""
    extra = " extra" if check.is_extra else ""
    return f" · {say(f'{number(check.points)} of {number(check.of)}{extra}')}"


def _row(label: str, value: str) -> str:
    """Format `Got       2 copies`, with further lines indented."""
    return f"{label:<9} {escape_control_chars(with_newlines(value))}".replace("\n", "\n" + " " * 10).rstrip()


def _printed(printed: RunOutput, say: Catalog) -> Iterator[str]:
    for title, words, is_cut in (
        ("The error", printed.traceback, False),
        ("What it printed", printed.output, printed.is_cut),
    ):
        if words:
            shown = escape_control_chars(with_newlines(words)).rstrip("\n").split("\n")
            is_cut = is_cut or len(shown) > LINES_OF_OUTPUT
            where = f", {say('with')} {text(printed.scenario)}" if printed.scenario else ""
            yield f"{say(title)}{where}{say(' (the beginning)') if is_cut else ''}:"
            yield fenced("\n".join(shown[:LINES_OF_OUTPUT]))


def _hint(hint: str, place: int, say: Catalog) -> str:
    """Quote a hint, so that unclosed markup of the course ends with it."""
    first, _, rest = hint.partition("\n")
    heading = _HEADING.fullmatch(first)
    title = f": {heading[1]}" if heading else ""
    body = rest if heading else hint
    lines = [f"**{say('Hint')} {place}{title}**", "", *body.strip("\n").split("\n")]
    return "\n".join(f"> {line}".rstrip() for line in lines)


def _name(name: str) -> str:
    """Return an ordinary name unchanged, and another one as a code span."""
    return name if _PLAIN_NAME.fullmatch(name) and escape_control_chars(name) == name else code(name)

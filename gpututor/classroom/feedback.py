"""Feedback: the student's view of a report, and its Markdown.

The one place that decides on it: the Markdown of `classroom feedback`, Gradescope's output and the students' reports on
the HTML page are all made of this. Whoever writes it escapes it: all texts are plain text.

Only `gpututor.classroom.feedback` decides what may be told. Text of others never becomes markup here: it stands in
fenced blocks that it cannot end, in code spans, or with its punctuation escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.gradebook.marking import submitted_at
from gpututor.classroom.gradebook.model import (
    Attempt,
    CheckMark,
    ExerciseSummary,
    Gradebook,
    Mark,
    MarkStatus,
    StudentMarks,
)
from gpututor.classroom.rules import Rules
from gpututor.classroom.submissions import Submission
from gpututor.classroom.tables import number, number_of
from gpututor.course.model import MAX_SUBMISSION_BYTES
from gpututor.files import ordinary
from gpututor.grading.report import Outcome, Report, Status, Verdict
from gpututor.grading.report_text import DOES_NOT_RUN, OUTCOME_TITLES, count, mark, own_gpu
from gpututor.text import escape_control_chars, lines_of, truncate, with_newlines

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
class StudentView:
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


def student_view(given: Mark, exercise: ExerciseSummary, rules: Rules) -> StudentView:
    """What may be told of a mark; `exercise` is the one that it is for."""
    attempt = given.counted
    report = attempt.report if attempt is not None else None
    verdicts = _shown(report.verdicts, rules, exercise.exercise) if report is not None else ()
    is_hiding = has_hidden(exercise, rules, report)
    checks = tuple(_checks(verdicts, attempt.checks)) if attempt is not None else ()
    return StudentView(
        outcome=_outcome(given, report, checks, verdicts, is_hiding),
        points=_points(given),
        notes=tuple(_notes(given, attempt, is_hiding)),
        checks=checks,
        printed=() if is_hiding or report is None else tuple(_printed_output(report)),
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
        case MarkStatus.NOT_HANDED_IN:
            return "– Nothing handed in for it" if given.misplaced else "– Nothing handed in"
        case MarkStatus.NOT_GRADED:
            return "○ Not graded yet"
        case MarkStatus.REFUSED:
            return "○ Could not be graded"
        case MarkStatus.OPEN:
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
        counts = "counts" if given.standing is MarkStatus.FINAL else "is looked at first"
        yield f"Attempt {given.attempts.index(attempt) + 1} of {len(given.attempts)} {counts}."
    if given.standing is MarkStatus.REFUSED:
        yield f"It was refused: {_why_refused(attempt)}"
    elif given.standing is MarkStatus.NOT_GRADED or attempt.report is None:
        yield "It is not graded yet."
    elif given.standing is MarkStatus.OPEN:
        yield NO_MARK_YET
    if attempt.report is not None and (own := own_gpu(attempt.report)):
        yield f"The exercise is made for a {own}, and was graded on another GPU model."
    if attempt.lateness.words:
        yield attempt.lateness.words
        if given.standing is MarkStatus.FINAL and attempt.deduction:
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


def _printed_output(report: Report) -> Iterable[Printed]:
    for run in report.runs:
        if run.output or run.traceback:
            is_cut = run.output_dropped_bytes > 0 or len(run.output) > LONGEST_OUTPUT
            scenario = run.scenario if len(report.runs) > 1 else ""
            output = truncate(run.output, LONGEST_OUTPUT)
            yield Printed(scenario, truncate(run.traceback, LONGEST_OUTPUT), output, is_cut)


LONGEST_LINE = 160


class SubmittedLines:
    """Looks lines up in the folder of a class; what is not there any more has none."""

    def __init__(self, folder: ClassFolder) -> None:
        self._folder = folder
        self._lines = lru_cache(maxsize=64)(self._read)

    def line(self, sha256: str, number: int) -> str:
        """The line, from 1, without the spaces around it, at most 160 characters; empty where there is none."""
        lines = self._lines(sha256)
        return truncate(lines[number - 1].strip(), LONGEST_LINE) if 0 < number <= len(lines) else ""

    def _read(self, sha256: str) -> list[str]:
        if not (sha256.isascii() and sha256.isalnum()):
            return []
        try:
            with open(self._folder.submission(sha256), "rb", opener=ordinary) as stream:
                return lines_of(stream.read(MAX_SUBMISSION_BYTES).decode(errors="replace"))
        except OSError:
            return []


LINES_OF_OUTPUT = 40
"""Of what was printed, and of a traceback."""
_PLAIN_NAME = re.compile(r"[^\W_]+(?:[ '’-][^\W_]+)*")
_PUNCTUATION = re.compile(
    r"[\\`*\[\]<>|~&$#@]"
    r"|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])"  # between letters it is no markup
    r"|(?<=:)/(?=/)|(?<=www)\."  # what some readers make a link of
)
_HEADING = re.compile(r"#{1,6} +(.*)")


def feedback(
    gradebook: Gradebook,
    marks: StudentMarks,
    lines: SubmittedLines,
    hints: Mapping[str, Sequence[str]],
) -> str:
    """The report for one student. `hints`: those that may be given, Markdown of the course, by exercise."""
    student = marks.student
    name = f"{_name(student.name)} ({code(student.id)})" if student.name else code(student.id)
    parts = [f"# Feedback for {name}", f"**{text(total_for_student(marks))}**"]
    rows = ["| Exercise | Mark | |", "| --- | --- | --- |"]
    sections: list[str] = []
    for exercise, exercise_mark in zip(gradebook.exercises, marks.marks, strict=True):
        told = student_view(exercise_mark, exercise, gradebook.rules)
        rows.append(f"| {text(exercise.numbered_title)} | {text(told.points)} | {text(told.outcome)} |")
        sections += _exercise(exercise, exercise_mark, told, lines, hints.get(exercise.exercise, ()), gradebook.rules)
    return "\n\n".join([*parts, "\n".join(rows), *sections]) + "\n"


def _exercise(
    exercise: ExerciseSummary,
    mark: Mark,
    told: StudentView,
    lines: SubmittedLines,
    hints: Sequence[str],
    rules: Rules,
) -> Iterator[str]:
    yield f"## {text(exercise.numbered_title)}"
    yield f"**{text(told.outcome)}** · {text(told.points)}"
    counted = mark.counted
    if counted is not None:
        yield f"Handed in: {code(counted.handed_in.source)}{text(_when(counted.handed_in, rules))}"
    if told.notes:
        yield text(" ".join(told.notes))
    sha256 = counted.handed_in.sha256 if counted is not None else ""
    for check in told.checks:
        if check.findings:
            yield from _check(check, sha256, lines)
    if others := [check for check in told.checks if not check.findings]:
        yield "\n".join(_in_a_line(check) for check in others)
    for printed in told.printed:
        yield from _printed(printed)
    if not told.is_all_right:
        for place, hint in enumerate(hints, 1):
            yield _hint(hint, place)


def _when(handed_in: Submission, rules: Rules) -> str:
    """When it was handed in, and when it was due, both in the time zone in which the instructor wrote the date."""
    at, due = submitted_at(handed_in), rules.due_for(handed_in.exercise, handed_in.student)
    if at is None:
        return ""
    zone = (rules.of(handed_in.exercise).due or rules.due or due or at).tzinfo
    words = f", {at.astimezone(zone).isoformat(' ', 'seconds')}"
    return words + (f"; due {due.astimezone(zone).isoformat(' ', 'seconds')}" if due else "")


def _in_a_line(check: ShownCheck) -> str:
    measured = f" ({text('; '.join(check.measured))})" if check.measured else ""
    return f"- {check.word}: {text(check.sentence)}{_worth(check)}{measured}"


def _check(check: ShownCheck, sha256: str, lines: SubmittedLines) -> Iterator[str]:
    yield f"### {text(check.word)}: {text(check.sentence)}{_worth(check)}"
    for each in check.findings:
        rows = [("Expected", each.expected), ("Got", each.got)]
        if each.line is not None:
            rows.append((f"Line {each.line}", lines.line(sha256, each.line)))
        rows += [("Measured", measured) for measured in check.measured]
        if where := "; ".join(each.scenarios):
            yield f"With {text(where)}:"
        yield fenced("\n".join(_row(label, value) for label, value in rows if value or label.startswith("Line")))
        if each.why:
            yield f"Why: {text(each.why)}"
        if each.advice:
            yield f"What to try: {text(each.advice)}"


def _worth(check: ShownCheck) -> str:
    if not check.of:
        return ""
    extra = " extra" if check.is_extra else ""
    return f" · {number(check.points)} of {number(check.of)}{extra}"


def _row(label: str, value: str) -> str:
    """`Got       2 copies`, further lines below the first one."""
    return f"{label:<9} {escape_control_chars(with_newlines(value))}".replace("\n", "\n" + " " * 10).rstrip()


def _printed(printed: Printed) -> Iterator[str]:
    for title, words, is_cut in (
        ("The error", printed.traceback, False),
        ("What it printed", printed.output, printed.is_cut),
    ):
        if words:
            shown = escape_control_chars(with_newlines(words)).rstrip("\n").split("\n")
            is_cut = is_cut or len(shown) > LINES_OF_OUTPUT
            where = f", with {text(printed.scenario)}" if printed.scenario else ""
            yield f"{title}{where}{' (the beginning)' if is_cut else ''}:"
            yield fenced("\n".join(shown[:LINES_OF_OUTPUT]))


def _hint(hint: str, place: int) -> str:
    """In a quotation: what the course left open ends with it."""
    first, _, rest = hint.partition("\n")
    heading = _HEADING.fullmatch(first)
    title = f": {heading[1]}" if heading else ""
    body = rest if heading else hint
    lines = [f"**Hint {place}{title}**", "", *body.strip("\n").split("\n")]
    return "\n".join(f"> {line}".rstrip() for line in lines)


def text(words: str) -> str:
    """Plain text on one line of Markdown."""
    return _PUNCTUATION.sub(r"\\\g<0>", " ".join(escape_control_chars(words).split()))


def code(words: str) -> str:
    """Plain text as a code span, which its own backticks cannot end."""
    line = " ".join(escape_control_chars(words).split())
    ticks = "`" * (_longest(line) + 1)
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{ticks}{space}{line}{space}{ticks}" if line else "` `"


def fenced(block: str) -> str:
    """Plain text, already `visible`, in a block that it cannot end."""
    ticks = "`" * max(_longest(block) + 1, 3)
    return f"{ticks}text\n{block}\n{ticks}"


def _longest(words: str) -> int:
    """The longest run of backticks."""
    return max(map(len, re.findall("`+", words)), default=0)


def _name(name: str) -> str:
    """A name as people write it; any other one is a code span."""
    return name if _PLAIN_NAME.fullmatch(name) and escape_control_chars(name) == name else code(name)

"""A Markdown report for each student: what was found in what they handed in, and what to try.

Only `gpututor.classroom.for_students` decides what may be told. Text of others never becomes markup here: it stands in
fenced blocks that it cannot end, in code spans, or with its punctuation escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from gpututor.classroom.for_students import ForStudent, Printed, ShownCheck, for_student, total_for_student
from gpututor.classroom.gradebook.attempts import submitted_at
from gpututor.classroom.gradebook.canvas import title_of
from gpututor.classroom.gradebook.cells import number
from gpututor.classroom.gradebook.model import ExerciseSummary, Gradebook, Mark, StudentMarks
from gpututor.classroom.handed_in import HandedIn
from gpututor.classroom.rules import Rules
from gpututor.classroom.submitted import SubmittedLines
from gpututor.plain_text import visible, with_newlines

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
    for exercise, mark in zip(gradebook.exercises, marks.marks, strict=True):
        told = for_student(mark, exercise, gradebook.rules)
        rows.append(f"| {text(title_of(exercise))} | {text(told.points)} | {text(told.outcome)} |")
        sections += _exercise(exercise, mark, told, lines, hints.get(exercise.exercise, ()), gradebook.rules)
    return "\n\n".join([*parts, "\n".join(rows), *sections]) + "\n"


def _exercise(
    exercise: ExerciseSummary,
    mark: Mark,
    told: ForStudent,
    lines: SubmittedLines,
    hints: Sequence[str],
    rules: Rules,
) -> Iterator[str]:
    yield f"## {text(title_of(exercise))}"
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


def _when(handed_in: HandedIn, rules: Rules) -> str:
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
    return f"{label:<9} {visible(with_newlines(value))}".replace("\n", "\n" + " " * 10).rstrip()


def _printed(printed: Printed) -> Iterator[str]:
    for title, words, is_cut in (
        ("The error", printed.traceback, False),
        ("What it printed", printed.output, printed.is_cut),
    ):
        if words:
            shown = visible(with_newlines(words)).rstrip("\n").split("\n")
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
    return _PUNCTUATION.sub(r"\\\g<0>", " ".join(visible(words).split()))


def code(words: str) -> str:
    """Plain text as a code span, which its own backticks cannot end."""
    line = " ".join(visible(words).split())
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
    return name if _PLAIN_NAME.fullmatch(name) and visible(name) == name else code(name)

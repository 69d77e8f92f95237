"""The gradebook as a table for a terminal, no wider than it is; what does not fit is told."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Iterator, Sequence

from gpututor.classroom.gradebook.model import ExerciseSummary, Gradebook, Mark, MarkStatus, StudentMarks
from gpututor.classroom.tables import number, number_of
from gpututor.grading.report_text import count
from gpututor.text import escape_control_chars

_WIDEST_NAME = 28
_LEAST_NAME = 12
_GAP = "  "
UNKNOWN = "?: what it is worth is not known yet: nothing of it is graded, and the course does not say it"


def lines_of(gradebook: Gradebook, width: int) -> Iterator[str]:
    """Everything, line by line: the class, each exercise, each student."""
    yield from _wrapped(_about(gradebook), width)
    if gradebook.exercises:
        yield ""
        yield from _exercises(gradebook, width)
    if gradebook.students:
        yield ""
        yield from _students(gradebook, width)


def _about(gradebook: Gradebook) -> Iterator[str]:
    class_, rules = gradebook.class_, gradebook.rules
    students, files = count(len(gradebook.students), "student"), count(len(class_.handed_in), "file")
    nobodys = sum(not each.students for each in class_.unmatched)
    misplaced = sum(bool(each.students) and not each.exercise for each in class_.unmatched)
    unmatched = f", {count(nobodys, 'file')} of nobody" if nobodys else ""
    unmatched += f", {count(misplaced, 'file')} of no exercise" if misplaced else ""
    yield f"{students}, {files} for {count(len(gradebook.exercises), 'exercise')}{unmatched}."
    undecided = sum(not marks.final for marks in gradebook.students)
    told = f" {count(undecided, 'student')} without a final total." if undecided else ""
    yield f"The {rules.attempts} attempt counts.{told}"


def _exercises(gradebook: Gradebook, width: int) -> Iterator[str]:
    rows = [("Exercise", "Handed in", "No mark", "Mean", "Of", "Most often failed")]
    for each in gradebook.exercises:
        failed = ", ".join(f"{check.check} {check.failed}" for check in each.checks if check.failed)
        mean = f"{each.mean_share:.0%}" if each.mean_share is not None else "–"
        handed_in = f"{each.handed_in}/{len(gradebook.students)}"
        title = f"({_name_of(each)})" if each.is_dropped else _name_of(each)
        rows.append(
            (title, handed_in, str(each.without_mark), mean, number_of(each.known_of), escape_control_chars(failed))
        )
    widths = [_widest(column) for column in list(zip(*rows, strict=True))[1:-1]]
    name = min(_widest([row[0] for row in rows]), max(_LEAST_NAME, width - sum(widths) - 2 * len(rows[0]) - 14))
    for row in rows:
        middle = [_right(cell, at) for cell, at in zip(row[1:-1], widths, strict=True)]
        line = _GAP.join([_left(row[0], name), *middle, row[-1]])
        yield _cut(line.rstrip(), width)


def _students(gradebook: Gradebook, width: int) -> Iterator[str]:
    """A column for each exercise, as far as they fit."""
    marks = gradebook.students
    names = ["Student", *(escape_control_chars(each.student.called) for each in marks)]
    totals = [("Points", "Of"), *(_total(each) for each in marks)]
    columns = [
        [each.label or f"#{place}", *(_mark(student.marks[place - 1]) for student in marks)]
        for place, each in enumerate(gradebook.exercises, 1)
    ]
    name = min(_widest(names), _WIDEST_NAME)
    points, of = (_widest(column) for column in zip(*totals, strict=True))
    room = width - name - points - of - 2 * len(_GAP)
    shown: list[tuple[list[str], int]] = []
    for column in columns:
        room -= _widest(column) + len(_GAP)
        if room < 0:
            break
        shown.append((column, _widest(column)))
    for place, (student, total) in enumerate(zip(names, totals, strict=True)):
        cells = [_right(column[place], at) for column, at in shown]
        line = _GAP.join([_left(student, name), _right(total[0], points), _right(total[1], of), *cells])
        yield _cut(line.rstrip(), width)
    yield from _wrapped(_legend(gradebook, len(shown)), width)


def _wrapped(lines: Iterator[str], width: int) -> Iterator[str]:
    for line in lines:
        yield from textwrap.wrap(line, width, subsequent_indent="  ") or [""]


def _legend(gradebook: Gradebook, shown: int) -> Iterator[str]:
    marks = [mark for student in gradebook.students for mark in student.marks[:shown]]
    told = ["– not handed in"] if any(mark.standing is MarkStatus.NOT_HANDED_IN for mark in marks) else []
    told += ["(2) does not count"] if any(mark.is_dropped for mark in marks) else []
    told += [
        f"{each.word}: {each.value}, no mark yet" if each.word != each.value else f"{each.word}: no mark yet"
        for each in MarkStatus
        if each.word and any(mark.standing is each for mark in marks)
    ]
    told += [UNKNOWN] if not all(each.knows_of for each in gradebook.exercises) else []
    if told:
        yield ""
        yield from told
    lacking = [(each, mark.misplaced) for each in gradebook.students for mark in each.marks if mark.misplaced]
    if misplaced := dict.fromkeys(f"{each.student.called}: {words}." for each, words in lacking):
        yield ""
        yield from map(escape_control_chars, misplaced)
    if left := len(gradebook.exercises) - shown:
        yield ""
        yield f"{count(left, 'exercise')} more: a wider terminal shows them, --csv has all."


def _total(marks: StudentMarks) -> tuple[str, str]:
    points = number(marks.points)
    return (points if marks.final else f"open ({points} so far)", number_of(marks.known_of))


def _mark(mark: Mark) -> str:
    if mark.standing is MarkStatus.NOT_HANDED_IN:
        word = "–"
    else:
        word = number(mark.mark) if mark.mark is not None else mark.standing.word
    return f"({word})" if mark.is_dropped else word


def _name_of(exercise: ExerciseSummary) -> str:
    return escape_control_chars(f"{exercise.label} {exercise.title}".strip())


def _widest(cells: Sequence[str]) -> int:
    return max(map(_width, cells), default=0)


def _width(text: str) -> int:
    """Columns on a terminal."""
    return sum(_columns(letter) for letter in text)


def _columns(letter: str) -> int:
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def _left(text: str, width: int) -> str:
    text = _cut(text, width)
    return text + " " * (width - _width(text))


def _right(text: str, width: int) -> str:
    return " " * (width - _width(text)) + text


def _cut(text: str, width: int) -> str:
    """`text` on one line of at most `width` columns, with a sign where something is left out."""
    text = text.replace("\n", " ").replace("\t", " ")
    if _width(text) <= width:
        return text
    kept, room = "", width - 1
    for letter in text:
        room -= _columns(letter)
        if room < 0:
            break
        kept += letter
    return f"{kept}…"

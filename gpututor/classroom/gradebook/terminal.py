"""The gradebook as a table for a terminal, no wider than the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from rich.cells import cell_len, set_cell_size

from gpututor.classroom.gradebook.model import Gradebook, Mark, MarkStatus, StudentMarks
from gpututor.classroom.tables import number
from gpututor.grading.report_text import count
from gpututor.text import escape_control_chars

_WIDEST_NAME = 28
_LEAST_NAME = 12
_GAP = "  "
BY_HAND = "*"
"""Sign of a mark by hand."""
MOST_BY_HAND = 20
"""Marks by hand below the table; the rest is counted."""
UNKNOWN = "?: points unknown, because nothing is graded yet and the course does not give them"


def lines_of(gradebook: Gradebook, width: int) -> Iterator[str]:
    """Yield the lines of the class, each exercise, and each student."""
    yield from _wrapped(_overview(gradebook), width)
    if gradebook.exercises:
        yield ""
        yield from _exercises(gradebook, width)
    if sections := gradebook.sections:
        yield ""
        rows = [("Section", "Students", "Final", "Mean")]
        for section in sections:
            mean = f"{section.mean_share:.0%}" if section.mean_share is not None else "–"
            rows.append((escape_control_chars(section.section), str(section.students), str(section.final), mean))
        name = min(_widest([row[0] for row in rows]), _WIDEST_NAME)
        for row in rows:
            yield _cut(_GAP.join([_left(row[0], name), *(_right(cell, 8) for cell in row[1:])]), width)
    if gradebook.students:
        yield ""
        yield from _students(gradebook, width)


def _overview(gradebook: Gradebook) -> Iterator[str]:
    class_, rules = gradebook.class_, gradebook.rules
    students, files = count(len(gradebook.students), "student"), count(len(class_.submissions), "file")
    unowned = sum(not file.students for file in class_.unmatched)
    misplaced = sum(bool(file.students) and not file.exercise for file in class_.unmatched)
    unmatched = f", {count(unowned, 'file')} of no student" if unowned else ""
    unmatched += f", {count(misplaced, 'file')} of no exercise" if misplaced else ""
    yield f"{students}, {files} for {count(len(gradebook.exercises), 'exercise')}{unmatched}."
    undecided = sum(not marks.final for marks in gradebook.students)
    more = f" {count(undecided, 'student')} without a final total." if undecided else ""
    yield f"{rules.counting_words}{more}"


def _exercises(gradebook: Gradebook, width: int) -> Iterator[str]:
    rows = [("Exercise", "Submitted", "No mark", "Mean", "Of", "Most often failed")]
    for exercise in gradebook.exercises:
        failed = escape_control_chars(
            ", ".join(
                f"{check_count.check} {check_count.failed}" for check_count in exercise.checks if check_count.failed
            )
        )
        mean = f"{exercise.mean_share:.0%}" if exercise.mean_share is not None else "–"
        submitted = f"{exercise.handed_in}/{len(gradebook.students)}"
        title = escape_control_chars(exercise.numbered_title)
        title = f"({title})" if exercise.is_dropped else title
        rows.append((title, submitted, str(exercise.without_mark), mean, number(exercise.known_of), failed))
    widths = [_widest(column) for column in list(zip(*rows, strict=True))[1:-1]]
    name = min(_widest([row[0] for row in rows]), max(_LEAST_NAME, width - sum(widths) - 2 * len(rows[0]) - 14))
    for row in rows:
        middle = [_right(cell, at) for cell, at in zip(row[1:-1], widths, strict=True)]
        line = _GAP.join([_left(row[0], name), *middle, row[-1]])
        yield _cut(line.rstrip(), width)


def _students(gradebook: Gradebook, width: int) -> Iterator[str]:
    students = gradebook.students
    names = ["Student", *(escape_control_chars(marks.student.called) for marks in students)]
    totals = [("Points", "Of"), *(_total(marks) for marks in students)]
    budget = gradebook.rules.slip_days
    columns = [["Slip days", *(f"{marks.slip_days} of {budget}" for marks in students)]] if budget else []
    columns += [
        [exercise.label or f"#{place}", *(_mark(marks.marks[place - 1]) for marks in students)]
        for place, exercise in enumerate(gradebook.exercises, 1)
    ]
    name = min(_widest(names), _WIDEST_NAME)
    points, of = (_widest(column) for column in zip(*totals, strict=True))
    space = width - name - points - of - 2 * len(_GAP)
    shown: list[tuple[list[str], int]] = []
    for column in columns:
        space -= _widest(column) + len(_GAP)
        if space < 0:
            break
        shown.append((column, _widest(column)))
    for place, (student, total) in enumerate(zip(names, totals, strict=True)):
        cells = [_right(column[place], at) for column, at in shown]
        line = _GAP.join([_left(student, name), _right(total[0], points), _right(total[1], of), *cells])
        yield _cut(line.rstrip(), width)
    yield from _wrapped(_legend(gradebook, max(len(shown) - bool(budget), 0)), width)


def _wrapped(lines: Iterator[str], width: int) -> Iterator[str]:
    for line in lines:
        yield from textwrap.wrap(line, width, subsequent_indent="  ") or [""]


def _legend(gradebook: Gradebook, shown: int) -> Iterator[str]:
    marks = [mark for student in gradebook.students for mark in student.marks[:shown]]
    statuses = {mark.status for mark in marks}
    lines = ["– not submitted"] if MarkStatus.NOT_HANDED_IN in statuses else []
    lines += ["(2) does not count"] if any(mark.is_dropped for mark in marks) else []
    lines += [
        f"{status.word}: {status.phrase}, no mark yet"
        if status.word != status.phrase
        else f"{status.word}: no mark yet"
        for status in MarkStatus
        if status.word and status in statuses
    ]
    lines += [UNKNOWN] if any(exercise.known_of is None for exercise in gradebook.exercises) else []
    if lines:
        yield ""
        yield from lines
    if by_hand := gradebook.by_hand:
        yield ""
        yield f"{BY_HAND} by hand:"
        for student, exercise, mark in by_hand[:MOST_BY_HAND]:
            name = f"{student.student.called}, {exercise.label or exercise.exercise}"
            yield escape_control_chars(f"{name}: {mark.by_hand_words}")
        if (more := len(by_hand) - MOST_BY_HAND) > 0:
            yield f"{count(more, 'mark')} more: --csv-checks has all."
    misplaced = [
        f"{student.student.called}: {mark.misplaced}."
        for student in gradebook.students
        for mark in student.marks
        if mark.misplaced
    ]
    if misplaced:
        yield ""
        yield from map(escape_control_chars, dict.fromkeys(misplaced))
    if left := len(gradebook.exercises) - shown:
        yield ""
        yield f"{count(left, 'exercise')} more: a wider terminal shows them, --csv has all."


def _total(marks: StudentMarks) -> tuple[str, str]:
    points = number(marks.points)
    return (points if marks.final else f"open ({points} so far)", number(marks.known_of))


def _mark(mark: Mark) -> str:
    if mark.status is MarkStatus.NOT_HANDED_IN:
        word = "–"
    else:
        word = number(mark.mark) if mark.mark is not None else mark.status.word
    word += BY_HAND if mark.by_hand is not None else ""
    return f"({word})" if mark.is_dropped else word


def _widest(cells: Sequence[str]) -> int:
    return max(map(cell_len, cells), default=0)


def _left(text: str, width: int) -> str:
    return set_cell_size(_cut(text, width), width)


def _right(text: str, width: int) -> str:
    return " " * (width - cell_len(text)) + text


def _cut(text: str, width: int) -> str:
    """Cut `text` to one line of at most `width` columns, with an ellipsis if something is missing."""
    text = text.replace("\n", " ").replace("\t", " ")
    return text if cell_len(text) <= width else f"{set_cell_size(text, width - 1)}…"

"""The gradebook as CSV: a row for each student, or a row for each check of each mark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpututor.classroom.gradebook.exports.export import Export, ExportRequest, write_text
from gpututor.classroom.gradebook.model import Gradebook, GradebookWarning, Mark, MarkStatus
from gpututor.classroom.tables import Cell, csv_text

WIDE = ("student", "name", "email", "points", "so_far", "of", "open")
"""Before a column for each exercise."""
LONG = (
    *("student", "name", "email", "exercise", "title", "standing", "outcome", "mark", "so_far", "of", "dropped"),
    *("attempt", "attempts", "file", "submitted_at", "late_periods", "late_per_cent", "deduction", "reason"),
    *("check", "sentence", "status", "check_points", "check_of", "extra", "hidden"),
)


def wide(gradebook: Gradebook) -> str:
    """A row for each student. What is no mark yet has a word in place of a number."""
    rows: list[Sequence[Cell]] = [(*WIDE, *(each.exercise for each in gradebook.exercises))]
    for marks in gradebook.students:
        student = marks.student
        total: tuple[Cell, ...] = (marks.points if marks.final else "open", marks.points, marks.known_of, marks.open)
        rows.append((student.id, student.name, student.email, *total, *map(mark_cell, marks.marks)))
    return csv_text(rows)


def mark_cell(mark: Mark) -> Cell:
    """The mark, or why there is none: `open`, `refused`, `not graded`."""
    return mark.mark if mark.mark is not None else mark.standing.value


def long(gradebook: Gradebook) -> str:
    """A row for each check of each mark; one without a check for what was not graded."""
    return csv_text([LONG, *_long_rows(gradebook)])


def _long_rows(gradebook: Gradebook) -> Iterator[Sequence[Cell]]:
    titles = {each.exercise: each.title for each in gradebook.exercises}
    for marks in gradebook.students:
        student = marks.student
        for mark in marks.marks:
            row = (student.id, student.name, student.email, mark.exercise, titles[mark.exercise], *_mark_cells(mark))
            checks = mark.counted.checks if mark.counted is not None else ()
            for check in checks:
                more = (_yes(check.is_extra), _yes(check.is_hidden))
                yield (*row, check.check, check.sentence, check.status.value, check.points, check.of, *more)
            if not checks:
                yield (*row, *(None,) * (len(LONG) - len(row)))


def _mark_cells(mark: Mark) -> tuple[Cell, ...]:
    outcome = mark.outcome.value if mark.outcome is not None else None
    so_far = mark.points if not mark.standing.is_mark else None
    cells: tuple[Cell, ...] = (mark.standing.value, outcome, mark.mark, so_far, mark.known_of, _yes(mark.is_dropped))
    counted = mark.counted
    if counted is None or mark.standing is MarkStatus.NOT_HANDED_IN:
        return (*cells, *(None,) * 7, mark.reason)
    one, late = counted.handed_in, counted.lateness
    attempt = (one.attempt, len(mark.attempts), one.source, one.submitted_at)
    return (*cells, *attempt, late.periods, late.per_cent, counted.deduction, mark.reason)


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _write_wide(request: ExportRequest) -> list[GradebookWarning]:
    write_text(request.path, wide(request.gradebook))
    return []


def _write_long(request: ExportRequest) -> list[GradebookWarning]:
    write_text(request.path, long(request.gradebook))
    return []


CSV = Export("csv", "a row for each student, a column for each exercise", "marks.csv", _write_wide)
CSV_CHECKS = Export("csv-checks", "a row for each check of each mark", "checks.csv", _write_long)

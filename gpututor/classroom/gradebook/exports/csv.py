"""The gradebook as CSV: a row for each student, or a row for each check of each mark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpututor.classroom.gradebook.exports.export import Export, text_writer
from gpututor.classroom.gradebook.model import Gradebook, Mark, MarkStatus
from gpututor.classroom.tables import Cell, csv_text

WIDE = ("student", "name", "email", "section", "points", "so_far", "of", "open", "slip_days", "by_hand")
LONG = (
    *("student", "name", "email", "exercise", "title", "standing", "outcome", "mark", "so_far", "of", "dropped"),
    *("attempt", "attempts", "file", "submitted_at", "late_periods", "late_per_cent", "slip_days", "deduction"),
    *("by_hand", "computed", "reason"),
    *("check", "sentence", "status", "check_points", "check_of", "extra", "hidden"),
)


def wide(gradebook: Gradebook) -> str:
    """Write a row for each student, with a word in place of a missing mark."""
    rows: list[Sequence[Cell]] = [(*WIDE, *(exercise.exercise for exercise in gradebook.exercises))]
    for marks in gradebook.students:
        student = marks.student
        points = marks.points if marks.final else "open"
        total: tuple[Cell, ...] = (points, marks.points, marks.known_of, marks.open, marks.slip_days)
        by_hand = (f"{mark.exercise}: {mark.by_hand_words}" for mark in marks.marks if mark.by_hand is not None)
        cells = (mark.mark if mark.mark is not None else mark.status.value for mark in marks.marks)
        rows.append((student.id, student.name, student.email, marks.section, *total, "; ".join(by_hand), *cells))
    return csv_text(rows)


def long(gradebook: Gradebook) -> str:
    """Write a row for each check of each mark, and a row without a check for other marks."""
    return csv_text([LONG, *_long_rows(gradebook)])


def _long_rows(gradebook: Gradebook) -> Iterator[Sequence[Cell]]:
    titles = {exercise.exercise: exercise.title for exercise in gradebook.exercises}
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
    so_far = mark.points if not mark.status.is_mark else None
    cells: tuple[Cell, ...] = (mark.status.value, outcome, mark.mark, so_far, mark.known_of, _yes(mark.is_dropped))
    by_hand = (_yes(mark.by_hand is not None), mark.computed_word)
    counted = mark.counted
    if counted is None or mark.status is MarkStatus.NOT_HANDED_IN:
        return (*cells, *(None,) * 8, *by_hand, mark.reason)
    submission, late = counted.submission, counted.lateness
    attempt = (submission.attempt, len(mark.attempts), submission.source, submission.submitted_at)
    return (*cells, *attempt, late.periods, late.per_cent, late.slip_days, counted.deduction, *by_hand, mark.reason)


def _yes(value: bool) -> str:
    return "yes" if value else "no"


CSV = Export("csv", "a row for each student, a column for each exercise", "marks.csv", text_writer(wide))
CSV_CHECKS = Export("csv-checks", "a row for each check of each mark", "checks.csv", text_writer(long))

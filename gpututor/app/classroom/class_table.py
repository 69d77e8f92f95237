"""The table of a class: rows with marks, filtered and ordered, and marks in words. It has no widgets."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache

from gpututor.classroom.gradebook.model import ExerciseSummary, Gradebook, Mark, MarkStatus, ScoredAttempt, StudentMarks
from gpututor.classroom.review import Item, Review
from gpututor.classroom.submissions import Submission
from gpututor.grading.report import Outcome
from gpututor.grading.report_text import OUTCOME_TITLES, outcome_line
from gpututor.text import escape_control_chars

SHORT = {
    Outcome.PASSED: "✓ pass",
    Outcome.FAILED: "✗ fail",
    Outcome.ERROR: "✗ error",
    Outcome.TIMEOUT: "✗ time",
    Outcome.OUT_OF_MEMORY: "✗ memory",
    Outcome.CRASHED: "✗ crash",
    Outcome.TOO_SLOW: "✗ slow",
    Outcome.INCONCLUSIVE: "○ unclear",
    Outcome.NEEDS_REVIEW: "○ look",
    Outcome.NOT_GRADABLE_HERE: "○ later",
    Outcome.REJECTED: "✗ reject",
    Outcome.INTERNAL_ERROR: "! broke",
}
"""A glyph and a word of at most seven letters for each outcome."""
_WITHOUT_MARK = {MarkStatus.OPEN: "○", MarkStatus.REFUSED: "○", MarkStatus.NOT_GRADED: "…"}
TO_LOOK_AT = "!"
"""The sign of a cell that a person should review."""
_SEPARATORS = re.compile(r"[_/\-@()\\]+")


class Order(StrEnum):
    """Orders of the students."""

    ID = "id"
    NAME = "name"
    POINTS = "points"


@dataclass(frozen=True)
class Cell:
    """A student's mark for an exercise."""

    mark: Mark
    text: str
    """`✓ pass`"""
    looks: bool
    """True if a person should review it."""
    words: str
    """Words for the filter, each after a space."""


@dataclass(frozen=True)
class ClassRow:
    """A student with all marks."""

    marks: StudentMarks
    name: str
    """The id, and the name if it is different; safe to show."""
    cells: tuple[Cell, ...]
    words: str

    @property
    def total(self) -> str:
        """`12.5/16`; a word if it is not final."""
        return self._figures if self.marks.final else MarkStatus.OPEN.word

    @property
    def so_far(self) -> str:
        """The total so far; empty if it is final."""
        return "" if self.marks.final else f"total open, {self._figures} so far"

    @property
    def _figures(self) -> str:
        return f"{figure(self.marks.points)}/{figure(self.marks.known_of)}"


@dataclass(frozen=True)
class ClassTable:
    """The marks of a class."""

    gradebook: Gradebook
    rows: tuple[ClassRow, ...]
    """Rows ordered by the students' ids."""
    columns: tuple[str, ...]
    """Headings of the exercises."""
    column_words: tuple[str, ...]
    review: Review | None
    """The review list; None until it is known."""
    items: Mapping[Submission, tuple[Item, ...]]
    """The items of the review list by file."""

    @cached_property
    def graded(self) -> tuple[int, int]:
        """Number of files with a result, and number of all files."""
        attempts = [attempt for row in self.rows for cell in row.cells for attempt in cell.mark.attempts]
        return sum(attempt.status is not MarkStatus.NOT_GRADED for attempt in attempts), len(attempts)


@dataclass(frozen=True)
class Shown:
    """Rows and columns of a table after filtering, in order."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    cells: Mapping[int, int] | None
    """Matching cells: for each row a number whose bits are the columns; None if all match."""

    def has(self, row: int, column: int) -> bool:
        return self.cells is None or bool(self.cells.get(row, 0) >> column & 1)


def table_of(gradebook: Gradebook, review: Review | None = None) -> ClassTable:
    """Make the table of a class. For a thread: a large class takes a moment."""
    exercises = gradebook.exercises
    columns = tuple(exercise.label or f"#{number}" for number, exercise in enumerate(exercises, 1))
    words = tuple(
        _words(label, exercise.exercise, exercise.title) for label, exercise in zip(columns, exercises, strict=True)
    )
    items: dict[Submission, tuple[Item, ...]] = {}
    for item in review.items if review is not None else ():
        for submission in item.files:
            items[submission] = (*items.get(submission, ()), item)
    rows = tuple(_row(student, items) for student in gradebook.students)
    return ClassTable(gradebook, rows, columns, words, review, items)


def _row(marks: StudentMarks, items: Mapping[Submission, tuple[Item, ...]]) -> ClassRow:
    student = marks.student
    more = student.name if student.name.casefold() not in ("", student.id.casefold()) else ""
    name = escape_control_chars(f"{student.id} {more}".strip()).replace("\n", " ").replace("\t", " ")
    words = _words(student.id, student.name, student.email)
    return ClassRow(marks, name, tuple(_cell(mark, items) for mark in marks.marks), words)


def _cell(mark: Mark, items: Mapping[Submission, tuple[Item, ...]]) -> Cell:
    outcome = mark.outcome
    if mark.by_hand is not None:
        text = "* by hand"
    elif mark.status is MarkStatus.NOT_HANDED_IN:
        text = "–"
    elif mark.status.is_mark and outcome is not None:
        text = SHORT[outcome]
    else:
        text = f"{_WITHOUT_MARK[mark.status]} {mark.status.word}"
    kinds = [item.kind.value for attempt in mark.attempts for item in items.get(attempt.submission, ())]
    suspicious = any(attempt.report is not None and attempt.report.suspicions for attempt in mark.attempts)
    looks = bool(kinds) or suspicious or mark.status in (MarkStatus.OPEN, MarkStatus.REFUSED)
    failed = [check.check for check in mark.counted.checks if check.status.is_failure] if mark.counted else []
    words = [mark.status.value, text, *([outcome.value] if outcome is not None else []), *failed, *kinds]
    words += ["open"] if not mark.status.is_mark else []
    words += ["look"] if looks else []
    words += ["late"] if mark.counted is not None and mark.counted.lateness.periods else []
    return Cell(mark, text, looks, _words(*words))


def _words(*texts: str) -> str:
    """Return the texts and their parts for the filter."""
    joined = " ".join(texts).casefold()
    parts = joined.replace("/", " ")
    return f" {joined} {parts} {_SEPARATORS.sub(' ', joined)}"


def shown_of(table: ClassTable, typed: str, order: Order) -> Shown:
    """Filter and order a table: each typed word must be the beginning of a word of student, exercise or result."""
    places = _ordered(table, order)
    words = [f" {word}" for word in typed.casefold().split()]
    if not words:
        return Shown(places, tuple(range(len(table.columns))), None)
    missing_in_column = [frozenset(word for word in words if word not in column) for column in table.column_words]
    needs: dict[frozenset[str], list[frozenset[str]]] = {}
    matching: dict[int, int] = {}
    columns = 0
    for at, row in enumerate(table.rows):
        missing = frozenset(word for word in words if word not in row.words)
        if missing not in needs:
            needs[missing] = [missing & in_column for in_column in missing_in_column]
        cells = enumerate(zip(needs[missing], row.cells, strict=True))
        bits = sum(1 << column for column, (need, cell) in cells if _has_all(need, cell.words))
        if bits:
            matching[at] = bits
            columns |= bits
    shown = tuple(column for column in range(len(table.columns)) if columns >> column & 1)
    return Shown(tuple(row for row in places if row in matching), shown, matching)


@lru_cache(4096)
def _has_all(needed: frozenset[str], words: str) -> bool:
    """Return True if a cell's words contain all needed words; cached, as cells have few different words."""
    return all(word in words for word in needed)


def students_of(table: ClassTable, typed: str) -> Iterator[ClassRow]:
    """Yield the students for whom each typed word is the beginning of a word."""
    words = [f" {word}" for word in typed.casefold().split()]
    return (row for row in table.rows if all(word in row.words for word in words))


def _ordered(table: ClassTable, order: Order) -> tuple[int, ...]:
    places = range(len(table.rows))
    if order is Order.NAME:
        students = [row.marks.student for row in table.rows]
        return tuple(sorted(places, key=lambda place: (students[place].name or students[place].id).casefold()))
    if order is Order.POINTS:
        return tuple(sorted(places, key=lambda place: -table.rows[place].marks.points))
    return tuple(places)


def figure(points: float | None) -> str:
    """`7`, `2.5`, `0.33`; `?` for unknown points."""
    return "?" if points is None else f"{points:.2f}".rstrip("0").rstrip(".")


def points_of(mark: Mark) -> str:
    """`3/4`; in parentheses if it does not count; empty without a mark."""
    if mark.status is not MarkStatus.FINAL:
        return ""
    words = f"{figure(mark.points)}/{figure(mark.known_of)}"
    return f"({words})" if mark.is_dropped else words


def mark_words(mark: Mark) -> str:
    """`3/4`, or why there is no mark, and the points so far."""
    so_far = f", {figure(mark.points)}/{figure(mark.known_of)} so far" if mark.status is MarkStatus.OPEN else ""
    return f"{mark.status.word}, no mark yet{so_far}" if mark.status.word else points_of(mark)


def title_of(exercise: ExerciseSummary) -> str:
    """`2.3 Same device`, safe to show."""
    return escape_control_chars(exercise.numbered_title)


def attempt_words(attempt: ScoredAttempt) -> str:
    """`✗ Failed: 1 of 4 checks passed`, or why there is no result."""
    if attempt.report is not None:
        return outcome_line(attempt.report)
    if attempt.status is MarkStatus.NOT_GRADED or attempt.outcome is None:
        return "… Not graded yet"
    return OUTCOME_TITLES[attempt.outcome]


def cell_words(row: ClassRow, exercise: ExerciseSummary, cell: Cell, table: ClassTable) -> str:
    """Describe a cell: student, exercise, result, and why a person should review it."""
    mark = cell.mark
    result = "– Not submitted" if mark.counted is None else attempt_words(mark.counted)
    parts = [result, *filter(None, [mark_words(mark)])]
    parts += ["left out of the total"] if mark.is_dropped else []
    parts += [row.so_far] if row.so_far else []
    kinds = dict.fromkeys(
        item.kind.heading for attempt in mark.attempts for item in table.items.get(attempt.submission, ())
    )
    remarks = [f"! {'; '.join(kinds)}."] if kinds else []
    return "\n".join(
        [f"{row.name} · {title_of(exercise)}", " · ".join(parts), " ".join([*remarks, *filter(None, [mark.reason])])]
    )


@dataclass(frozen=True)
class ClassSource:
    """Reads a class. Both functions may be slow, and may raise `TutorError`."""

    name: str
    read: Callable[[], Gradebook]
    review: Callable[[Gradebook], Review]

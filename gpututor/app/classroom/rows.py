"""A class as a table: a row for each student, a cell for each exercise, what narrows and what orders it. No Textual."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from gpututor.classroom.gradebook.model import ExerciseSummary, Gradebook, Mark, Standing, StudentMarks
from gpututor.classroom.handed_in import HandedIn
from gpututor.classroom.review import Item, Review
from gpututor.grading.report import Outcome
from gpututor.plain_text import visible

SHORT = {
    Outcome.PASSED: "✓ pass",
    Outcome.FAILED: "✗ fail",
    Outcome.ERROR: "✗ error",
    Outcome.TIMEOUT: "✗ time",
    Outcome.OUT_OF_MEMORY: "✗ memory",
    Outcome.CRASHED: "✗ crash",
    Outcome.TOO_SLOW: "✗ slow",
    Outcome.INCONCLUSIVE: "○ open",
    Outcome.NEEDS_REVIEW: "○ look",
    Outcome.NOT_GRADABLE_HERE: "○ later",
    Outcome.REJECTED: "✗ refused",
    Outcome.INTERNAL_ERROR: "! broke",
}
"""A glyph and a word of at most seven letters for each outcome."""
NOT_HANDED_IN, NOT_GRADED = "–", "… waits"
TO_LOOK_AT = "!"
"""Behind a cell that a person should look at."""
_BETWEEN = re.compile(r"[_/\-@()\\]+")


class Order(StrEnum):
    """How the students are ordered."""

    ID = "id"
    NAME = "name"
    POINTS = "points"


@dataclass(frozen=True)
class Cell:
    """One student at one exercise."""

    mark: Mark
    text: str
    """`✓ pass`"""
    looks: bool
    """Whether somebody should look at it."""
    words: str
    """What it can be found by, each word with a space before it."""


@dataclass(frozen=True)
class Row:
    """One student."""

    marks: StudentMarks
    name: str
    """The id, and the name where it says more; safe to be shown."""
    cells: tuple[Cell, ...]
    words: str

    @property
    def total(self) -> str:
        """`12.5/16`, with a sign where it is not final."""
        open_ = "" if self.marks.final else " ○"
        return f"{figure(self.marks.points)}/{figure(self.marks.of)}{open_}"


@dataclass(frozen=True)
class ClassTable:
    """All of it."""

    gradebook: Gradebook
    rows: tuple[Row, ...]
    """By the students' ids."""
    columns: tuple[str, ...]
    """What each exercise is called in the head of the table."""
    column_words: tuple[str, ...]
    review: Review | None
    """What somebody should look at; None until it is known."""
    items: Mapping[HandedIn, tuple[Item, ...]]
    """The same by file."""

    @cached_property
    def to_look_at(self) -> int:
        """How many cells are marked."""
        return sum(cell.looks for row in self.rows for cell in row.cells)

    @cached_property
    def graded(self) -> tuple[int, int]:
        """How many files have a result, and how many were handed in."""
        attempts = [attempt for row in self.rows for cell in row.cells for attempt in cell.mark.attempts]
        return sum(attempt.standing is not Standing.NOT_GRADED for attempt in attempts), len(attempts)


@dataclass(frozen=True)
class Shown:
    """What is left of a table, in the order in which it is to be shown."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    cells: frozenset[tuple[int, int]] | None
    """Of these the matching ones; None where all are."""

    def has(self, row: int, column: int) -> bool:
        return self.cells is None or (row, column) in self.cells


def table_of(gradebook: Gradebook, review: Review | None = None) -> ClassTable:
    """For a thread: a large class takes a moment."""
    exercises = gradebook.exercises
    columns = tuple(each.label or f"#{number}" for number, each in enumerate(exercises, 1))
    words = tuple(_words(label, each.exercise, each.title) for label, each in zip(columns, exercises, strict=True))
    items: dict[HandedIn, tuple[Item, ...]] = {}
    for item in review.items if review is not None else ():
        for one in item.files:
            items[one] = (*items.get(one, ()), item)
    rows = tuple(_row(student, items) for student in gradebook.students)
    return ClassTable(gradebook, rows, columns, words, review, items)


def _row(marks: StudentMarks, items: Mapping[HandedIn, tuple[Item, ...]]) -> Row:
    student = marks.student
    more = student.name if student.name.casefold() not in ("", student.id.casefold()) else ""
    name = visible(f"{student.id} {more}".strip()).replace("\n", " ").replace("\t", " ")
    words = _words(student.id, student.name, student.email)
    return Row(marks, name, tuple(_cell(mark, items) for mark in marks.marks), words)


def _cell(mark: Mark, items: Mapping[HandedIn, tuple[Item, ...]]) -> Cell:
    outcome = mark.outcome
    if mark.standing is Standing.NOT_HANDED_IN:
        text = NOT_HANDED_IN
    else:
        text = SHORT[outcome] if outcome is not None else NOT_GRADED
    kinds = [item.kind.value for attempt in mark.attempts for item in items.get(attempt.handed_in, ())]
    suspicious = any(attempt.report is not None and attempt.report.suspicions for attempt in mark.attempts)
    looks = bool(kinds) or suspicious or mark.standing in (Standing.OPEN, Standing.REFUSED)
    failed = [check.check for check in mark.counted.checks if check.status.is_failure] if mark.counted else []
    told = [mark.standing.value, text, *([outcome.value] if outcome is not None else []), *failed, *kinds]
    told += ["open"] if not mark.standing.is_mark else []
    told += ["look"] if looks else []
    told += ["late"] if mark.counted is not None and mark.counted.lateness.periods else []
    return Cell(mark, text, looks, _words(*told))


def _words(*texts: str) -> str:
    """Each text whole, and its parts."""
    joined = " ".join(texts).casefold()
    parts = joined.replace("/", " ")
    return f" {joined} {parts} {_BETWEEN.sub(' ', joined)}"


def shown_of(table: ClassTable, typed: str, order: Order) -> Shown:
    """What matches all words that were typed: a word is the beginning of one of the student, exercise or result."""
    places = _ordered(table, order)
    words = [f" {word}" for word in typed.casefold().split()]
    if not words:
        return Shown(places, tuple(range(len(table.columns))), None)
    left = [frozenset(word for word in words if word not in column) for column in table.column_words]
    found: set[tuple[int, int]] = set()
    for at, row in enumerate(table.rows):
        missing = frozenset(word for word in words if word not in row.words)
        for column, cell in enumerate(row.cells):
            if all(word in cell.words for word in missing & left[column]):
                found.add((at, column))
    rows, columns = {row for row, _ in found}, {column for _, column in found}
    return Shown(tuple(row for row in places if row in rows), tuple(sorted(columns)), frozenset(found))


def _ordered(table: ClassTable, order: Order) -> tuple[int, ...]:
    places = range(len(table.rows))
    match order:
        case Order.ID:
            return tuple(places)
        case Order.NAME:
            return tuple(sorted(places, key=lambda place: _name_key(table.rows[place])))
        case Order.POINTS:
            return tuple(sorted(places, key=lambda place: -table.rows[place].marks.points))


def _name_key(row: Row) -> str:
    return (row.marks.student.name or row.marks.student.id).casefold()


def figure(points: float) -> str:
    """`7`, `2.5`, `0.33`"""
    return f"{points:.2f}".rstrip("0").rstrip(".")


def points_of(mark: Mark) -> str:
    """`3/4`; empty where nothing was handed in or graded, in brackets where it does not count."""
    if mark.standing in (Standing.NOT_HANDED_IN, Standing.NOT_GRADED):
        return ""
    words = f"{figure(mark.points)}/{figure(mark.of)}"
    return f"({words})" if mark.is_dropped else words


def title_of(exercise: ExerciseSummary) -> str:
    """`2.3 Same device`"""
    return visible(f"{exercise.label} {exercise.title}".strip())

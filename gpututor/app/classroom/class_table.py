"""Rows of a class: filter and order. Knows no Textual."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from textual.message import Message

from gpututor.classroom.gradebook.model import ExerciseSummary, Gradebook, Mark, MarkStatus, StudentMarks
from gpututor.classroom.review import Item, Review
from gpututor.classroom.submissions import Submission
from gpututor.errors import TutorError
from gpututor.grading.report import Outcome
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
    Outcome.REJECTED: "✗ refused",
    Outcome.INTERNAL_ERROR: "! broke",
}
"""A glyph and a word of at most seven letters for each outcome that is a mark."""
NOT_HANDED_IN = "–"
_WITHOUT_MARK = {MarkStatus.OPEN: "○", MarkStatus.REFUSED: "○", MarkStatus.NOT_GRADED: "…"}
"""Before the word that tables have in the place of a mark."""
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
        """`12.5/16`; a word where it is not final."""
        return self._figures if self.marks.final else MarkStatus.OPEN.word

    @property
    def so_far(self) -> str:
        """What the total comes to so far; empty where it is final."""
        return "" if self.marks.final else f"total open, {self._figures} so far"

    @property
    def _figures(self) -> str:
        return f"{figure(self.marks.points)}/{figure(self.marks.known_of)}"


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
    items: Mapping[Submission, tuple[Item, ...]]
    """The same by file."""

    @cached_property
    def to_look_at(self) -> int:
        """How many things are on the review list; 0 until it is made."""
        return len(self.review.items) if self.review is not None else 0

    @cached_property
    def graded(self) -> tuple[int, int]:
        """How many files have a result, and how many were handed in."""
        attempts = [attempt for row in self.rows for cell in row.cells for attempt in cell.mark.attempts]
        return sum(attempt.standing is not MarkStatus.NOT_GRADED for attempt in attempts), len(attempts)


@dataclass(frozen=True)
class Shown:
    """What is left of a table, in the order in which it is to be shown."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    cells: Mapping[int, int] | None
    """Of these the matching ones: for each row a number whose bits are its columns; None where all match."""

    def has(self, row: int, column: int) -> bool:
        return self.cells is None or bool(self.cells.get(row, 0) >> column & 1)


def table_of(gradebook: Gradebook, review: Review | None = None) -> ClassTable:
    """For a thread: a large class takes a moment."""
    exercises = gradebook.exercises
    columns = tuple(each.label or f"#{number}" for number, each in enumerate(exercises, 1))
    words = tuple(_words(label, each.exercise, each.title) for label, each in zip(columns, exercises, strict=True))
    items: dict[Submission, tuple[Item, ...]] = {}
    for item in review.items if review is not None else ():
        for one in item.files:
            items[one] = (*items.get(one, ()), item)
    rows = tuple(_row(student, items) for student in gradebook.students)
    return ClassTable(gradebook, rows, columns, words, review, items)


def _row(marks: StudentMarks, items: Mapping[Submission, tuple[Item, ...]]) -> Row:
    student = marks.student
    more = student.name if student.name.casefold() not in ("", student.id.casefold()) else ""
    name = escape_control_chars(f"{student.id} {more}".strip()).replace("\n", " ").replace("\t", " ")
    words = _words(student.id, student.name, student.email)
    return Row(marks, name, tuple(_cell(mark, items) for mark in marks.marks), words)


def _cell(mark: Mark, items: Mapping[Submission, tuple[Item, ...]]) -> Cell:
    outcome = mark.outcome
    if mark.standing is MarkStatus.NOT_HANDED_IN:
        text = NOT_HANDED_IN
    elif mark.standing.is_mark and outcome is not None:
        text = SHORT[outcome]
    else:
        text = f"{_WITHOUT_MARK[mark.standing]} {mark.standing.word}"
    kinds = [item.kind.value for attempt in mark.attempts for item in items.get(attempt.handed_in, ())]
    suspicious = any(attempt.report is not None and attempt.report.suspicions for attempt in mark.attempts)
    looks = bool(kinds) or suspicious or mark.standing in (MarkStatus.OPEN, MarkStatus.REFUSED)
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
    needs = _Needs(words, table.column_words)
    found: dict[int, int] = {}
    columns = 0
    for at, row in enumerate(table.rows):
        bits = 0
        for bit, matches, cell in zip(needs.bits, needs.of(row.words), row.cells, strict=True):
            if matches[cell.words]:
                bits |= bit
        if bits:
            found[at] = bits
            columns |= bits
    shown = tuple(column for column in range(len(table.columns)) if columns >> column & 1)
    return Shown(tuple(row for row in places if row in found), shown, found)


class _Needs:
    """What cells must still have, by their rows and columns. The same is found out once: cells have few words."""

    def __init__(self, words: list[str], columns: tuple[str, ...]) -> None:
        self.bits = tuple(1 << column for column in range(len(columns)))
        self._words = words
        self._left = [frozenset(word for word in words if word not in column) for column in columns]
        self._rows: dict[frozenset[str], list[_Matches]] = {}
        self._matches: dict[frozenset[str], _Matches] = {}

    def of(self, row: str) -> list[_Matches]:
        """For each column whether a cell's words are enough, in a row of these words."""
        missing = frozenset(word for word in self._words if word not in row)
        if missing not in self._rows:
            needs = [missing & left for left in self._left]
            self._rows[missing] = [self._matches.setdefault(need, _Matches(need)) for need in needs]
        return self._rows[missing]


class _Matches(dict[str, bool]):
    """Whether a cell's words hold all that are needed."""

    def __init__(self, needed: frozenset[str]) -> None:
        super().__init__()
        self._needed = needed

    def __missing__(self, words: str) -> bool:
        found = self[words] = all(word in words for word in self._needed)
        return found


def students_of(table: ClassTable, typed: str) -> Iterator[Row]:
    """The students of whom every word that was typed is the beginning of a word."""
    words = [f" {word}" for word in typed.casefold().split()]
    return (row for row in table.rows if all(word in row.words for word in words))


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


def figure(points: float | None) -> str:
    """`7`, `2.5`, `0.33`; `?` for what is not known yet."""
    return "?" if points is None else f"{points:.2f}".rstrip("0").rstrip(".")


def points_of(mark: Mark) -> str:
    """`3/4`; empty where nothing was handed in or there is no mark, in brackets where it does not count."""
    if mark.standing is not MarkStatus.FINAL:
        return ""
    words = f"{figure(mark.points)}/{figure(mark.known_of)}"
    return f"({words})" if mark.is_dropped else words


def mark_words(mark: Mark) -> str:
    """`3/4`, or why it is no mark, with what is known so far."""
    so_far = f", {figure(mark.points)}/{figure(mark.known_of)} so far" if mark.standing is MarkStatus.OPEN else ""
    return f"{mark.standing.word}, no mark yet{so_far}" if mark.standing.word else points_of(mark)


def title_of(exercise: ExerciseSummary) -> str:
    """`2.3 Same device`"""
    return escape_control_chars(exercise.numbered_title)


@dataclass(frozen=True)
class Source:
    """Where the class comes from; each may take its time, and raise `TutorError`."""

    name: str
    read: Callable[[], Gradebook]
    review: Callable[[Gradebook], Review]


@dataclass
class ClassRead(Message):
    """The class was read, or could not be."""

    reading: int
    found: ClassTable | TutorError


def read_in_thread(source: Source, reading: int, post: Callable[[Message], object]) -> None:
    """Post `ClassRead` twice: without what is to be looked at, which takes longer, and with it."""
    threading.Thread(target=_read, args=(source, reading, post), daemon=True).start()


def _read(source: Source, reading: int, post: Callable[[Message], object]) -> None:
    try:
        gradebook = source.read()
        post(ClassRead(reading, table_of(gradebook)))
        post(ClassRead(reading, table_of(gradebook, source.review(gradebook))))
    except TutorError as error:
        post(ClassRead(reading, error))
    except Exception as unknown:  # files may come and go while they are read
        from gpututor.app.runtime import write_log

        write_log(unknown)
        post(ClassRead(reading, TutorError(f"The class could not be read: {unknown!r}", "")))

"""Lessons and exercises with the learner's progress in each, in rows that can be filtered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from gpututor.course.model import Course, Exercise
from gpututor.fuzzy import ranked
from gpututor.progress.store import ExerciseProgress


class State(StrEnum):
    PASSED = "passed"
    STARTED = "started"
    TO_DO = "to do"

    @property
    def glyph(self) -> str:
        return {State.PASSED: "✓", State.STARTED: "◐", State.TO_DO: "○"}[self]


@dataclass(frozen=True)
class ExerciseRow:
    """A line of the course list."""

    key: str
    label: str
    title: str
    summary: str
    minutes: int
    state: State
    attempts: int
    hints_used: int
    paths: tuple[str, ...] = ()
    """Titles of the learning paths that contain the exercise."""

    @property
    def id(self) -> str:
        return f"exercise {self.key}"

    @property
    def name(self) -> str:
        return f"{self.label} {self.title}"


@dataclass(frozen=True)
class LessonRow:
    """A heading of the course list."""

    slug: str
    number: int
    title: str
    summary: str
    exercises: tuple[ExerciseRow, ...]

    @property
    def id(self) -> str:
        return f"lesson {self.slug}"

    @property
    def passed(self) -> int:
        return sum(exercise.state is State.PASSED for exercise in self.exercises)

    @property
    def finished(self) -> bool:
        return bool(self.exercises) and self.passed == len(self.exercises)


FilteredRows = tuple[tuple[LessonRow, tuple[ExerciseRow, ...]], ...]
"""Rows of a list: lessons, each with its visible exercises."""


def state_of(key: str, lessons: tuple[LessonRow, ...]) -> State:
    """Return the state of an exercise of the course."""
    return next(row.state for lesson in lessons for row in lesson.exercises if row.key == key)


def path_titles(lessons: tuple[LessonRow, ...]) -> tuple[str, ...]:
    """Return the titles of the course's learning paths."""
    return tuple(dict.fromkeys(path for lesson in lessons for row in lesson.exercises for path in row.paths))


def filter_rows(lessons: tuple[LessonRow, ...], words: str = "", view: State | str | None = None) -> FilteredRows:
    """Return the exercises of `view` that fit all the words: the best first, below their lessons.

    `view` is a state, the title of a learning path, or None for all exercises. Lessons without such an exercise are
    left out, except when there is no filter.
    """
    if not words.strip() and view is None:
        return tuple((lesson, lesson.exercises) for lesson in lessons)
    rows = [(lesson, row) for lesson in lessons for row in lesson.exercises if view in (None, row.state, *row.paths)]
    kept: dict[str, tuple[LessonRow, list[ExerciseRow]]] = {}
    for (lesson, row), _ in ranked(words, rows, _texts_of):
        kept.setdefault(lesson.slug, (lesson, []))[1].append(row)
    return tuple((lesson, tuple(rows)) for lesson, rows in kept.values())


def _texts_of(place: tuple[LessonRow, ExerciseRow]) -> tuple[str, ...]:
    lesson, row = place
    return row.name, row.summary, lesson.title, row.key


def lesson_rows(course: Course, progress: Mapping[str, ExerciseProgress]) -> tuple[LessonRow, ...]:
    """Return rows of the whole course with the learner's state in each exercise."""
    nothing = ExerciseProgress()
    rows = []
    for lesson in course.lessons:
        exercises = tuple(
            _exercise_row(course, exercise, progress.get(exercise.key, nothing)) for exercise in lesson.exercises
        )
        rows.append(LessonRow(lesson.slug, lesson.number, lesson.title, lesson.summary, exercises))
    return tuple(rows)


def _exercise_row(course: Course, exercise: Exercise, progress: ExerciseProgress) -> ExerciseRow:
    state = State.PASSED if progress.passed else State.STARTED if progress.attempts else State.TO_DO
    texts = (exercise.key, exercise.label, exercise.title, exercise.summary)
    paths = tuple(path.title for path in course.paths_of(exercise))
    return ExerciseRow(*texts, exercise.minutes, state, progress.attempts, progress.hints_used, paths)

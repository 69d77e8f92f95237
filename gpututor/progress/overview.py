"""Lessons and exercises with the learner's progress in each, in rows that can be filtered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from gpututor.course.model import Course, Exercise
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


def path_titles(lessons: tuple[LessonRow, ...]) -> tuple[str, ...]:
    """Return the titles of the course's learning paths."""
    return tuple(dict.fromkeys(path for lesson in lessons for row in lesson.exercises for path in row.paths))


def filter_rows(lessons: tuple[LessonRow, ...], words: str = "", view: State | str | None = None) -> FilteredRows:
    """Return the exercises of `view` whose texts contain all the words in any order.

    `view` is a state, the title of a learning path, or None for all exercises. Lessons without such an exercise are
    left out, except when there is no filter.
    """
    wanted = words.casefold().split()

    def fits(row: ExerciseRow, lesson: LessonRow) -> bool:
        text = f"{row.label} {row.title} {row.summary} {lesson.title}".casefold()
        return view in (None, row.state, *row.paths) and all(word in text for word in wanted)

    rows = ((lesson, tuple(row for row in lesson.exercises if fits(row, lesson))) for lesson in lessons)
    return tuple(row for row in rows if row[1] or (not wanted and view is None))


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

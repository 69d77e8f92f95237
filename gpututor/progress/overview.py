"""Lessons and exercises with the learner's progress in each, in rows that can be filtered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from gpututor.course.model import Course
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
    """One line of the course list."""

    key: str
    label: str
    title: str
    summary: str
    minutes: int
    state: State
    attempts: int
    hints_used: int

    @property
    def id(self) -> str:
        """Its name among all rows of the list."""
        return f"exercise {self.key}"


@dataclass(frozen=True)
class LessonRow:
    """One heading of the course list."""

    slug: str
    number: int
    title: str
    summary: str
    exercises: tuple[ExerciseRow, ...]

    @property
    def id(self) -> str:
        """Its name among all rows of the list."""
        return f"lesson {self.slug}"

    @property
    def passed(self) -> int:
        return sum(1 for exercise in self.exercises if exercise.state is State.PASSED)

    @property
    def finished(self) -> bool:
        return bool(self.exercises) and self.passed == len(self.exercises)


Listed = tuple[tuple[LessonRow, tuple[ExerciseRow, ...]], ...]
"""What a list shows: lessons, each with those of its exercises that are shown."""


def filter_rows(lessons: tuple[LessonRow, ...], words: str = "", state: State | None = None) -> Listed:
    """The exercises in a state, or in any, that have all the words somewhere in what is said of them, in any order.

    A lesson of which no exercise is left is left out, unless nothing was asked for.
    """
    wanted = words.casefold().split()
    found = tuple((lesson, tuple(_matching(lesson, wanted, state))) for lesson in lessons)
    return found if not wanted and state is None else tuple(each for each in found if each[1])


def _matching(lesson: LessonRow, wanted: list[str], state: State | None) -> Iterator[ExerciseRow]:
    for row in lesson.exercises:
        text = f"{row.label} {row.title} {row.summary} {lesson.title}".casefold()
        if state in (None, row.state) and all(word in text for word in wanted):
            yield row


def lesson_rows(course: Course, progress: Mapping[str, ExerciseProgress]) -> tuple[LessonRow, ...]:
    """The whole course with the learner's state in each exercise."""
    return tuple(
        LessonRow(
            lesson.slug,
            lesson.number,
            lesson.title,
            lesson.summary,
            tuple(
                ExerciseRow(
                    exercise.key,
                    exercise.label,
                    exercise.title,
                    exercise.summary,
                    exercise.minutes,
                    _state(progress.get(exercise.key)),
                    progress[exercise.key].attempts if exercise.key in progress else 0,
                    progress[exercise.key].hints_used if exercise.key in progress else 0,
                )
                for exercise in lesson.exercises
            ),
        )
        for lesson in course.lessons
    )


def _state(progress: ExerciseProgress | None) -> State:
    if progress is None or not (progress.passed or progress.attempts):
        return State.TO_DO
    return State.PASSED if progress.passed else State.STARTED

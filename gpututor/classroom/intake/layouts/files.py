"""One file for each student and exercise: `EXERCISE/STUDENT.py`, `STUDENT__EXERCISE.py`."""

from __future__ import annotations

from collections.abc import Sequence

from gpututor.classroom.intake.layouts.place import Person, Place
from gpututor.classroom.intake.names import without_ending
from gpututor.classroom.intake.which_exercise import ExerciseNames
from gpututor.course.exercise import Exercise

_BETWEEN = "__"


class Files:
    name = "files"

    def __init__(self, names: ExerciseNames, exercise: Exercise | None) -> None:
        self._names = names
        self._exercise = exercise

    def place(self, parts: Sequence[str]) -> Place:
        stem = without_ending(parts[-1], ".py")
        student, mark, exercise = stem.rpartition(_BETWEEN)
        if mark and student and (found := self._names.named(exercise)):
            return Place((_person(student),), (parts[-1],), found)
        for number, name in enumerate(parts[:-1]):
            if not (found := self._names.named(without_ending(name, ".zip"))):
                continue
            rest = parts[number + 1 :]
            if len(rest) > 1:  # EXERCISE/STUDENT/solution.py
                return Place((_person(without_ending(rest[0], ".zip")),), tuple(rest[1:]), found)
            if parts[-1].casefold().endswith((".py", ".zip")):
                return Place((_person(stem),), (parts[-1],), found)
            return Place(path=tuple(parts), why="It is called after no student, and is no Python file.")
        if self._exercise is not None and len(parts) == 1:
            return Place((_person(stem),), (parts[-1],), self._exercise)
        return Place(path=tuple(parts), why="It is called neither EXERCISE/STUDENT.py nor STUDENT__EXERCISE.py.")


def _person(name: str) -> Person:
    """`kim (1)` may be another Kim, whose file a browser called so: nobody's work is taken for another's."""
    return Person(key=name, best_id=name)

"""Which exercise a file is for, by the names that lead to it."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Sequence
from itertools import takewhile

from gpututor.classroom.intake.names import copy_number, normal, without_copy_mark, without_ending
from gpututor.course.exercise import Course, Exercise

_SAYS_NOTHING = {
    "solution", "submission", "main", "answer", "exercise", "code", "program", "script", "my_solution", "starter",
}  # fmt: skip
"""File names that leave it to the folder to say which exercise it is."""
_MOST_WORDS = 16
"""Of a name, that are looked at for an exercise's."""


class ExerciseNames:
    """All names by which the exercises of a course are known."""

    def __init__(self, course: Course) -> None:
        self.course = course
        self._by_name: dict[str, Exercise] = {}
        self._by_number: dict[tuple[str, int], Exercise] = {}
        self._by_key = {exercise.key: exercise for exercise in course.exercises}
        self._by_slug = {normal(exercise.slug): exercise for exercise in course.exercises}
        self._slugs = sorted(self._by_slug)
        self._lessons: set[str] = set()
        for lesson in course.lessons:
            names = {normal(lesson.slug), normal(lesson.folder.name)}
            self._lessons |= names
            for exercise in lesson.exercises:
                for name in _names_of(exercise):
                    self._by_name.setdefault(name, exercise)
                for name in (*names, str(lesson.number), f"{lesson.number:02}"):
                    self._by_number[name, exercise.number] = exercise

    def with_key(self, key: str) -> Exercise | None:
        return self._by_key.get(key)

    def is_lesson(self, name: str) -> bool:
        return normal(name) in self._lessons

    def named(self, name: str) -> Exercise | None:
        """The exercise that a folder, or a file without its ending, is called after."""
        for candidate in dict.fromkeys((name, without_copy_mark(name))):
            folded = normal(candidate)
            bare = re.sub(r"^\d+_(?=\D)", "", folded)  # the number of another version of the course
            if found := self._by_name.get(folded) or self._by_name.get(bare):
                return found
        return None

    def at(self, path: Sequence[str]) -> Exercise | None:
        """The exercise of a file, by its path below the student's folder: folders, zips, and the file's name."""
        stem = without_ending(path[-1], ".py")
        above = [without_ending(name, ".zip") for name in path[:-1]]
        if found := self.named(stem):
            return found
        if above and (found := self._numbered(above[-1], stem)):
            return found
        if says_nothing(stem):
            return next((found for name in reversed(above) if (found := self.named(name))), None)
        return None

    def nearly(self, path: Sequence[str]) -> Exercise | None:
        """The exercise that a file is probably meant for of which `at` knows nothing: to ask about, not to grade.

        Its name is in the file's, as whole words; or the file's begins as it does, for the most part.
        """
        stem = without_ending(path[-1], ".py")
        asked = [without_ending(name, ".zip") for name in reversed(path[:-1])] if says_nothing(stem) else [stem]
        return next((found for name in asked if (found := self._nearly_named(name))), None)

    def _nearly_named(self, name: str) -> Exercise | None:
        words = normal(name).split("_")[:_MOST_WORDS]
        for number in range(len(words), 0, -1):  # the longest first
            for first in range(len(words) - number + 1):
                if found := self._by_slug.get("_".join(words[first : first + number])):
                    return found
        folded = "_".join(words)
        at = bisect(self._slugs, folded)
        best, length = "", 0
        for slug in self._slugs[max(0, at - 1) : at + 1]:  # none begins more alike than those beside it
            if (alike := _alike(slug, folded)) > length:
                best, length = slug, alike
        return self._by_slug[best] if best and 4 * length >= 3 * len(best) else None

    def _numbered(self, lesson: str, stem: str) -> Exercise | None:
        """`05_keep_the_data_moving/01.py`, `5/1.py`."""
        number = normal(without_copy_mark(stem))
        if not re.fullmatch(r"[0-9]{1,3}", number):
            return None
        return self._by_number.get((normal(lesson), int(number)))


def _alike(one: str, other: str) -> int:
    """How many characters they begin with alike."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def says_nothing(stem: str) -> bool:
    return normal(without_copy_mark(stem)) in _SAYS_NOTHING


def order_of_copies(path: Sequence[str]) -> int:
    """Later copies of the same name have larger numbers."""
    return copy_number(without_ending(path[-1], ".py"))


def _names_of(exercise: Exercise) -> set[str]:
    lesson, number = exercise.lesson_number, exercise.number
    labels = (f"{lesson}_{number}", f"{lesson:02}_{number:02}", f"{lesson}_{number:02}", f"{lesson:02}_{number}")
    slug, folder = normal(exercise.slug), normal(exercise.folder.name)
    lessons = (normal(exercise.lesson_slug), normal(exercise.folder.parent.name))
    return {
        slug,
        folder,
        *labels,
        *(f"{label}_{slug}" for label in labels),
        *(f"{lesson_name}_{name}" for lesson_name in lessons for name in (slug, folder)),
    }

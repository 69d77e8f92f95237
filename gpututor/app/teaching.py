"""Which lesson teaches what a check asks for, and what a lesson wants to be remembered. No Textual."""

from __future__ import annotations

import re

from gpututor.course.exercise import Course, Exercise
from gpututor.errors import CourseError
from gpututor.progress.review import Mistake

REMEMBER = "## Remember"


MANY = 3
"""A lesson that asks for something in so many exercises, and in half of them, is about it."""


def lesson_about(mistake: Mistake, course: Course) -> str:
    """The slug of the lesson that teaches what a kind of check asks for.

    It is the first that asks for it in half of its exercises, else the one that asks most often; where no exercise
    names the check, the lesson in which it failed most often.
    """
    word = re.compile(rf"\b{re.escape(mistake.check)}\(|\bname=\"{re.escape(mistake.check)}\"")
    asks = {lesson.slug: sum(bool(word.search(_checks(one))) for one in lesson.exercises) for lesson in course.lessons}
    for lesson in course.lessons:
        if asks[lesson.slug] >= max(MANY, len(lesson.exercises) / 2):
            return lesson.slug
    if most := max(asks.values(), default=0):
        return next(slug for slug, number in asks.items() if number == most)
    return mistake.exercises[0].partition("/")[0]


def _checks(exercise: Exercise) -> str:
    try:
        return exercise.checks
    except CourseError:
        return ""


def to_remember(lesson_text: str) -> str:
    """The section of a lesson's text that sums it up; empty where it has none."""
    lines = lesson_text.splitlines()
    if REMEMBER not in lines:
        return ""
    rest = lines[lines.index(REMEMBER) + 1 :]
    end = next((number for number, line in enumerate(rest) if line.startswith(("# ", "## "))), len(rest))
    return "\n".join(rest[:end]).strip()

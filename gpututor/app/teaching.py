"""Which lesson teaches what a check asks for, and what a lesson wants to be remembered. No Textual."""

from __future__ import annotations

import re

from gpututor.course.exercise import Course, Exercise
from gpututor.errors import CourseError
from gpututor.progress.review import Mistake

REMEMBER = "## Remember"
OWN_KINDS = {
    "loads": "The file loads",
    "runs": "It runs to its end",
    "prints": "It prints no more than can be kept",
}
"""The grader's own checks: every exercise has them, so no lesson is about them."""
_KINDS = OWN_KINDS | {
    "aliasing": "What shares memory with what",
    "after_call": "What becomes of the arguments",
    "determinism": "The same inputs give the same result each time",
    "distribution": "Random results have the right distribution",
    "files": "What is written to files",
    "identity": "Which outputs are the very objects that were passed",
    "launches": "How many kernels are launched",
    "measurement": "Times are measured rightly",
    "memory": "How much memory is held",
    "overlap": "Copies and kernels run beside each other",
    "parity": "The values are those of the reference",
    "placement": "Where the outputs live",
    "precision": "Which dtypes are computed in",
    "processes": "What each rank does",
    "races": "No two streams race for the same memory",
    "source": "What the file uses and does not use",
    "speed": "How fast it is",
    "structure": "The outputs' types, shapes and dtypes",
    "syncs": "How often the host waits",
    "transfers": "How often and how much is copied",
    "unmodified": "Inputs are left as they were",
    "value": "The values are those that are expected",
}


MANY = 3
"""A lesson that asks for something in so many exercises, and in half of them, is about it."""


def in_general(mistake: Mistake) -> str:
    """What a kind of check asks for, whatever the exercise; of a kind of the author's own, its usual sentence."""
    return _KINDS.get(mistake.check, mistake.sentence)


def lesson_about(mistake: Mistake, course: Course) -> str:
    """The slug of the lesson that teaches what a kind of check asks for.

    It is the first that asks for it in half of its exercises, else the one that asks most often; where no exercise
    names the check, the lesson in which it failed most often. Empty for the grader's own checks.
    """
    if mistake.check in OWN_KINDS:
        return ""
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

"""The course that comes with gpututor, and what the tests are parametrised with."""

from __future__ import annotations

import pytest

from gpututor import paths
from gpututor.course.catalogue import load_course

COURSE = load_course(paths.builtin_course())
EXERCISES = [pytest.param(exercise, id=exercise.slug) for exercise in COURSE.exercises]
SECOND_OF_EACH_LESSON = [
    pytest.param(exercise, id=exercise.slug, marks=[] if exercise.number == 2 else [pytest.mark.long])
    for exercise in COURSE.exercises
]
"""The others where there is time: the gate tries them, too."""
TWO_OF_EACH_LESSON = [
    pytest.param(exercise, id=exercise.slug, marks=[] if exercise.number <= 2 else [pytest.mark.long])
    for exercise in COURSE.exercises
]
LESSONS = [pytest.param(lesson, id=lesson.slug) for lesson in COURSE.lessons]
WRONG_SOLUTIONS = [
    pytest.param(exercise, path, id=f"{exercise.slug}-{path.stem}")
    for exercise in COURSE.exercises
    for path in exercise.wrong_solutions
]

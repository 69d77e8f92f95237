"""The course that comes with gpututor, and parameters of tests from it."""

from __future__ import annotations

import random

import pytest

from gpututor import paths
from gpututor.course.loader import load_course

COURSE = load_course(paths.builtin_course())
EXERCISES = [pytest.param(exercise, id=exercise.slug) for exercise in COURSE.exercises]
ONE_OF_EACH_LESSON = [pytest.param(exercise, id=exercise.slug) for exercise in COURSE.exercises if exercise.number == 2]
"""The second exercise of each lesson; long runs of the gate try all."""
SAMPLE = [
    pytest.param(exercise, id=exercise.slug)
    for exercise in sorted(
        random.Random(16).sample([each for each in COURSE.exercises if any(s.gpus for s in each.scenarios)], 10),
        key=lambda exercise: (exercise.lesson_number, exercise.number),
    )
]
"""Exercises that `make test` grades on two GPU models; `make test-all` grades every exercise on four more."""
ONE_OF_SOME_LESSONS = [
    pytest.param(exercise, id=exercise.slug)
    for exercise in COURSE.exercises
    if exercise.label in ("1.1", "5.1", "7.1", "9.4")
]
"""Exercises of some lessons; long runs of the gate try all."""
LESSONS = [pytest.param(lesson, id=lesson.slug) for lesson in COURSE.lessons]
SOME_LESSONS = [
    pytest.param(lesson, id=lesson.slug, marks=[] if lesson.number % 4 == 1 else [pytest.mark.long])
    for lesson in COURSE.lessons
]
RIGHT_SOLUTIONS = [
    pytest.param(exercise, path, id=f"{exercise.slug}-{path.stem}")
    for exercise in COURSE.exercises
    for path in exercise.right_solutions
]
WRONG_SOLUTIONS = [
    pytest.param(exercise, path, id=f"{exercise.slug}-{path.stem}")
    for exercise in COURSE.exercises
    for path in exercise.wrong_solutions
]

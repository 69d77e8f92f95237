"""The course that comes with gpututor, and what the tests are parametrised with."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpututor import paths
from gpututor.course.catalogue import load_course

COURSE = load_course(paths.builtin_course())
EXERCISES = [pytest.param(exercise, id=exercise.slug) for exercise in COURSE.exercises]
WITH_PARITY = [
    pytest.param(exercise, id=exercise.slug)
    for exercise in COURSE.exercises
    if "parity(" in (exercise.folder / "checks.py").read_text(encoding="utf-8")
]
LESSONS = [pytest.param(lesson, id=lesson.slug) for lesson in COURSE.lessons]
WRONG_SOLUTIONS = [
    pytest.param(exercise, path, id=f"{exercise.slug}-{path.stem}")
    for exercise in COURSE.exercises
    for path in exercise.wrong_solutions
]


def named_check(path: Path) -> str:
    """The check that a wrong solution says it fails on: `# fails: placement` is its first line."""
    return path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# fails:").strip()

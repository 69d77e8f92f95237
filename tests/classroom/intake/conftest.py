"""A small course, and classes laid out in folders and zips."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.intake import read_class
from gpututor.classroom.submissions import Class
from gpututor.course.model import Course, Exercise, Lesson
from gpututor.hardware.scenario import Scenario
from tests.support.class_layouts import Reader, lay_out


@pytest.fixture(scope="session")
def course() -> Course:
    """Make a course with 1.1 find_the_gpu, 5.1 one_big_copy and 5.2 in_place."""
    root = Path("/course")
    slugs = {(1, "meet_the_device"): ["find_the_gpu"], (5, "keep_the_data_moving"): ["one_big_copy", "in_place"]}
    lessons = []
    for (number, slug), exercises in slugs.items():
        folder = root / f"{number:02}_{slug}"
        made = (_exercise(folder, number, slug, place, name) for place, name in enumerate(exercises, 1))
        lessons.append(Lesson(number, slug, folder, slug, "", tuple(made)))
    return Course(root, tuple(lessons), id="small")


def _exercise(lesson_folder: Path, lesson: int, lesson_slug: str, number: int, slug: str) -> Exercise:
    return Exercise(
        lesson_number=lesson,
        number=number,
        slug=slug,
        lesson_slug=lesson_slug,
        folder=lesson_folder / f"{number:02}_{slug}",
        title=slug,
        summary="",
        minutes=5,
        kind="function",
        entry="f",
        cases=1,
        devices=("virtual",),
        scenarios=(Scenario("one GPU"),),
    )


@pytest.fixture
def kept(tmp_path: Path) -> ClassFolder:
    return ClassFolder(tmp_path / "out")


@pytest.fixture
def reading(course: Course, kept: ClassFolder) -> Reader:
    """Call `read_class` for the small course, into the folder `kept`."""

    def do(source: Path, layout: str = "auto", exercise: str = "") -> Class:
        return read_class(source, course, kept, layout=layout, exercise=course.find(exercise) if exercise else None)

    return do


@pytest.fixture
def laid_out(tmp_path: Path) -> Callable[..., Path]:
    """Make a folder with these files."""

    return lambda files, name="class": lay_out(tmp_path / name, files)

"""A course with links to nowhere, pipes and devices among its files is read at once, and told of in words."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from gpututor.course.loader import EXERCISE_FILES, load_course, load_exercise
from gpututor.errors import CourseError
from tests.support.timeouts import no_waiting
from tests.support.tiny_course import write_course


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_course(tmp_path / "course", exercises=2, lessons=2)


def loop(path: Path) -> None:
    path.symlink_to(path.name)


def unreadable(path: Path) -> None:
    """The system refuses to say what it is, even to root."""
    path.symlink_to("x" * 300)


def link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def listener(path: Path) -> None:
    short = Path("/tmp") / f"gpututor-{os.getpid()}.socket"  # the name of a socket has 107 bytes at most
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(short))
    shutil.move(short, path)


def pipe(path: Path) -> None:
    os.mkfifo(path)


ODD: list[Callable[[Path], None]] = [loop, unreadable, link_to_a_device, listener, pipe]


@pytest.mark.parametrize("make", [loop, unreadable])
@pytest.mark.parametrize("place", [".", "01_lesson_1"])
def test_one_broken_entry_is_told_and_hides_no_other(folder: Path, place: str, make: Callable[[Path], None]) -> None:
    make(folder / place / "05_broken")
    make(folder / place / ".hidden")
    course = load_course(folder)
    assert [exercise.label for exercise in course.exercises] == ["1.1", "1.2", "2.1", "2.2"]
    (problem,) = course.problems
    assert problem.title.startswith(f"{folder / place / '05_broken'}: cannot be read (")


@pytest.mark.parametrize("make", ODD)
def test_an_odd_entry_that_no_exercise_needs_takes_nothing_away(folder: Path, make: Callable[[Path], None]) -> None:
    make(folder / "01_lesson_1" / "01_twice_1_1" / "notes")
    course = load_course(folder)
    assert (len(course.exercises), course.problems) == (4, ())


@pytest.mark.parametrize("make", ODD)
@pytest.mark.parametrize("name", ["exercise.toml", *EXERCISE_FILES, "wrong/once.py", "wrong"])
def test_what_is_no_ordinary_file_is_told_at_once_and_hides_no_other(
    folder: Path, name: str, make: Callable[[Path], None]
) -> None:
    path = folder / "01_lesson_1" / "01_twice_1_1" / name
    shutil.rmtree(path) if name == "wrong" else path.unlink()
    make(path)
    with no_waiting():
        course = load_course(folder)
    assert [exercise.label for exercise in course.exercises] == ["1.2", "2.1", "2.2"]
    (problem,) = course.problems
    assert problem.title.startswith(f"{path}: ")
    assert "missing" not in problem.title
    with no_waiting(), pytest.raises(CourseError):
        load_exercise(folder / "01_lesson_1" / "01_twice_1_1")


@pytest.mark.parametrize("make", ODD)
@pytest.mark.parametrize("name", ["course.toml", "01_lesson_1/lesson.toml", "01_lesson_1/lesson.md"])
def test_a_lesson_with_an_odd_file_keeps_its_exercises(folder: Path, name: str, make: Callable[[Path], None]) -> None:
    (folder / name).unlink()
    make(folder / name)
    with no_waiting():
        course = load_course(folder)
    assert len(course.exercises) == 4
    (problem,) = course.problems
    assert problem.title.startswith(f"{folder / name}: ")


@pytest.mark.parametrize("make", ODD)
def test_a_text_that_became_odd_after_the_course_was_read_is_told_at_once(
    folder: Path, make: Callable[[Path], None]
) -> None:
    course = load_course(folder)
    exercise = course.exercises[0]
    for path in (exercise.folder / "task.md", course.lessons[0].folder / "lesson.md"):
        path.unlink()
        make(path)
    for owner, text in ((exercise, "task"), (course.lessons[0], "text")):
        with no_waiting(), pytest.raises(CourseError, match="cannot be read"):
            getattr(owner, text)

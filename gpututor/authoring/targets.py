"""What `verify` is asked to look at: a whole course, some of its lessons, some of its exercises."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpututor.course.catalogue import load_course
from gpututor.course.exercise import Course, Exercise, Lesson
from gpututor.errors import CourseError, UsageError

_MANIFESTS = {"exercise.toml": "exercise", "lesson.toml": "lesson", "lesson.md": "lesson"}


@dataclass(frozen=True)
class Targets:
    """What is to be looked at of one course."""

    course: Course
    lessons: tuple[Lesson, ...]
    """Those whose text is to be looked at."""
    exercises: tuple[Exercise, ...]
    problems: tuple[CourseError, ...]
    """What the catalogue found wrong, as far as it is about them."""


def targets_of(course_folder: Path, words: Sequence[str]) -> tuple[Targets, ...]:
    """What `words` name, course by course; without any, all of the course in `course_folder`.

    A word is the folder of an exercise, a lesson or a course, a file in one, a number (5, 5.1) or a name of the course
    in `course_folder`. Raises `UsageError` for any other, `CourseError` for a course that is none.
    """
    if not words:
        course = load_course(course_folder)
        return (Targets(course, course.lessons, course.exercises, course.problems),)
    wanted: dict[Path, list[Path]] = {}
    for word in words:
        course_of, folder = _named(course_folder, word)
        wanted.setdefault(course_of, []).append(folder)
    return tuple(_within(load_course(course), folders) for course, folders in wanted.items())


def _named(course_folder: Path, word: str) -> tuple[Path, Path]:
    """The course's folder and the folder that is meant."""
    path = Path(os.path.abspath(Path(word).expanduser()))
    if path.exists():
        for folder in (path, *path.parents[:3])[path.is_file() :]:
            match _kind(folder):
                case "exercise":
                    return folder.parent.parent, folder
                case "lesson":
                    return folder.parent, folder
        if path.is_dir():
            return path, path
    course = load_course(course_folder)
    for lesson in course.lessons:
        if word in (str(lesson.number), lesson.slug, lesson.folder.name):
            return course.folder, lesson.folder
    return course.folder, course.find(word).folder


def _kind(folder: Path) -> str:
    """`exercise` or `lesson`, by the manifest; a folder beside exercises counts as one, whatever it lacks."""
    for name, kind in _MANIFESTS.items():
        if (folder / name).is_file():
            return kind
    return "exercise" if any((folder.parent / name).is_file() for name in ("lesson.toml", "lesson.md")) else ""


def _within(course: Course, folders: Iterable[Path]) -> Targets:
    folders = tuple(dict.fromkeys(folders))

    def is_wanted(path: Path) -> bool:
        return any(path.is_relative_to(folder) for folder in folders)

    lessons = tuple(lesson for lesson in course.lessons if is_wanted(lesson.folder))
    exercises = tuple(exercise for exercise in course.exercises if is_wanted(exercise.folder))
    problems = tuple(problem for problem in course.problems if is_wanted(_path_of(problem)))
    if not (lessons or exercises or problems):
        raise UsageError(
            f"{folders[0]}: there is no lesson and no exercise.",
            "Name the folder of an exercise, a lesson or a course.",
        )
    return Targets(course, lessons, exercises, problems)


def _path_of(problem: CourseError) -> Path:
    return Path(problem.title.partition(": ")[0])

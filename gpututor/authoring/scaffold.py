"""A new exercise with all of its files, from a skeleton that passes `gpututor verify`. Never overwrites a file."""

from __future__ import annotations

import keyword
import os
import re
from dataclasses import dataclass
from pathlib import Path
from string import Template

from gpututor.errors import CourseError, UsageError
from gpututor.files import create_atomically

SKELETON = Path(__file__).parent / "skeleton"
_ORDER = {
    "lesson": ("lesson.toml", "lesson.md"),
    "exercise": (
        *("exercise.toml", "task.md", "solution.py", "given.py", "checks.py"),
        *(f"wrong/{name}.py" for name in ("on_the_cpu", "row_by_row", "signs_lost", "transposed")),
        *("starter.py", "hints.md"),
    ),
}
"""Files of a skeleton, in the order in which an author best rewrites them."""
_SLUG = re.compile(r"(?:\d\d_)?([a-z][a-z0-9_]*)")
_NUMBERED = re.compile(r"(\d\d)_(.+)")


@dataclass(frozen=True)
class NewExercise:
    """The files of a new exercise."""

    lesson: Path
    exercise: Path
    files: tuple[Path, ...]
    lesson_is_new: bool


def make_exercise(course: Path, words: str) -> NewExercise:
    """Make the exercise `LESSON/EXERCISE` in the folder `course`, and the lesson and the course if they are new.

    Both names are lower-case words (`keep_the_data_moving/one_big_copy`); a lesson may be its number or folder.
    Raises `UsageError` for other names and for an existing exercise, `CourseError` if a file cannot be written.
    """
    lesson_word, _, exercise_word = words.partition("/")
    slug = _slug(exercise_word, words)
    if keyword.iskeyword(slug):
        raise UsageError(f"{slug!r} is a Python keyword, and cannot name a function.", "Choose another name.")
    course = Path(os.path.abspath(course))
    for other in _numbered(course):
        if slug in (taken := {name[3:]: name for name in _names(course / other)}):
            there = course / other / taken[slug]
            raise UsageError(f"An exercise has this name: {there}", "Choose another name, or continue there.")
    lesson, lesson_is_new = _lesson(course, lesson_word, words)
    exercise = lesson / f"{_next_number(lesson):02d}_{slug}"
    names = {"entry": slug, "title": _title(slug)}
    files: list[Path] = []
    if not (course / "course.toml").exists():
        title = _title(course.name)
        files.append(_write(course / "course.toml", f'id = "{course.name}"\ntitle = "{title}"\n'))
    if lesson_is_new:
        files += _fill("lesson", lesson, {"title": _title(lesson.name[3:])})
    files += _fill("exercise", exercise, names)
    return NewExercise(lesson, exercise, tuple(files), lesson_is_new)


def _slug(word: str, words: str) -> str:
    match = _SLUG.fullmatch(word)
    if match is None:
        advice = "Write LESSON/EXERCISE, such as keep_the_data_moving/one_big_copy."
        raise UsageError(f"{words!r} is not a valid name: expected lower-case words joined by _.", advice)
    return match[1]


def _lesson(course: Path, word: str, words: str) -> tuple[Path, bool]:
    """Return the lesson's folder, and True if it is new."""
    for name in _numbered(course):
        if word in (name, name[3:], name[:2].lstrip("0"), name[:2]):
            return course / name, False
    return course / f"{_next_number(course):02d}_{_slug(word, words)}", True


def _next_number(folder: Path) -> int:
    number = max((int(name[:2]) for name in _numbered(folder)), default=0) + 1
    if number > 99:
        raise UsageError(f"{folder}: all numbers up to 99 are taken.", "Start another lesson, or another course.")
    return number


def _numbered(folder: Path) -> list[str]:
    return [name for name in _names(folder) if _NUMBERED.fullmatch(name)]


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _fill(kind: str, folder: Path, names: dict[str, str]) -> list[Path]:
    templates = {name: Template((SKELETON / kind / f"{name}.template").read_text("utf-8")) for name in _ORDER[kind]}
    return [_write(folder / name, template.substitute(names)) for name, template in templates.items()]


def _write(path: Path, text: str) -> Path:
    try:
        if not create_atomically(path, text):
            raise UsageError(f"{path} already exists.", "Move it away, or choose another name.")
    except OSError as error:
        advice = "Give yourself write permission, or name another course with --course DIR."
        raise CourseError(f"{path}: cannot be written ({error.strerror})", advice) from error
    return path


def _title(slug: str) -> str:
    return slug.replace("_", " ").capitalize()

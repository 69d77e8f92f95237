"""Finding and reading a course: the folders of lessons and exercises, and what is wrong with them.

Starters and solutions are only looked for, never read, so that a whole course loads in a few milliseconds.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpututor.course.exercise import Course, Exercise, Lesson, Limits, Scenario, split_hints
from gpututor.course.manifest import (
    COURSE_KEYS,
    EXERCISE_KEYS,
    LESSON_KEYS,
    Mistake,
    as_error,
    exercise_mistakes,
    read_manifest,
)
from gpututor.errors import CourseError

EXERCISE_FILES = ("task.md", "starter.py", "given.py", "checks.py", "solution.py", "hints.md")
"""What must stand beside `exercise.toml`."""
FEWEST_HINTS = 3
FEWEST_WRONG_SOLUTIONS = 3

_FOLDER_NAME = re.compile(r"(\d\d)_([a-z][a-z0-9_]*)")
_FAILS_LINE = re.compile(rb"# fails: \S")


@dataclass(frozen=True)
class _Found:
    """A folder called `NN_slug`."""

    number: int
    slug: str
    folder: Path


def load_course(folder: Path) -> Course:
    """The course in `folder`. What is broken is left out and told in `problems`; the rest is whole.

    Raises `CourseError` when there is no folder, or nothing in it that could be a lesson.
    """
    folder = Path(os.path.abspath(folder))  # not resolved: a link to a course keeps its name
    if not folder.is_dir():
        raise CourseError(f"{folder}: there is no such folder", "Name the folder of a course with --course DIR.")
    problems: list[CourseError] = []
    found = _numbered_folders(folder, "lesson", problems)
    if not found:
        titles = [f"{folder}: there are no lessons in it", *(problem.title for problem in problems[:3])]
        raise CourseError("\n".join(titles), "A course has folders called like 01_meet_the_device.")
    about = _values(folder / "course.toml", COURSE_KEYS, problems)
    seen: dict[str, Path] = {}
    lessons = tuple(_load_lesson(lesson, seen, problems) for lesson in found)
    return Course(folder, lessons, tuple(problems), id=about.get("id", ""), title=about.get("title", ""))


def load_exercise(folder: Path) -> Exercise:
    """The exercise in `folder`. Raises one `CourseError` that lists all that is wrong with it."""
    folder = Path(os.path.abspath(folder))
    if not folder.is_dir():
        raise CourseError(f"{folder}: there is no such folder", "Name the folder of an exercise.")
    problems: list[CourseError] = []
    lesson = _named(folder.parent, "lesson", problems)
    found = _named(folder, "exercise", problems)
    exercise = _read_exercise(lesson, found, problems) if lesson and found else None
    if exercise is None or problems:
        raise CourseError("\n".join(problem.title for problem in problems), problems[0].advice)
    return exercise


def _load_lesson(found: _Found, seen: dict[str, Path], problems: list[CourseError]) -> Lesson:
    """The lesson, whole or with a title made of its folder's name; `seen` holds the exercises' slugs so far."""
    about = _values(found.folder / "lesson.toml", LESSON_KEYS, problems)
    if not (found.folder / "lesson.md").is_file():
        problems.append(_missing(found.folder / "lesson.md"))
    exercises: list[Exercise] = []
    folders = _numbered_folders(found.folder, "exercise", problems)
    if not folders:
        problems.append(
            CourseError(f"{found.folder}: the lesson has no exercises", "Add a folder called like 01_find_the_gpu.")
        )
    for exercise in folders:
        if exercise.slug in seen:
            problems.append(_taken(exercise, f"the name {exercise.slug!r}", seen[exercise.slug]))
            continue
        seen[exercise.slug] = exercise.folder
        mistakes: list[CourseError] = []
        read = _read_exercise(found, exercise, mistakes)
        problems += mistakes
        if read is not None and not mistakes:
            exercises.append(read)
    title = about.get("title", found.slug.replace("_", " ").capitalize())
    return Lesson(found.number, found.slug, found.folder, title, about.get("summary", ""), tuple(exercises))


def _read_exercise(lesson: _Found, found: _Found, problems: list[CourseError]) -> Exercise | None:
    """The exercise as far as its manifest is right; what is wrong with any of its files is added to `problems`."""
    path = found.folder / "exercise.toml"
    values = _values(path, EXERCISE_KEYS, problems)
    problems += [as_error(path, mistake) for mistake in exercise_mistakes(values)]
    files = _entries(found.folder, os.DirEntry.is_file, problems)
    problems += [_missing(found.folder / name) for name in EXERCISE_FILES if name not in files]
    if "hints.md" in files:
        problems += _hint_mistakes(found.folder / "hints.md")
    problems += _wrong_solution_mistakes(found.folder / "wrong")
    if len(values) < len(EXERCISE_KEYS):
        return None
    return Exercise(
        lesson_number=lesson.number,
        number=found.number,
        slug=found.slug,
        lesson_slug=lesson.slug,
        folder=found.folder,
        title=values["title"],
        summary=values["summary"],
        minutes=values["minutes"],
        kind=values["kind"],
        entry=values["entry"],
        cases=values["cases"],
        devices=values["devices"],
        scenarios=tuple(Scenario(**scenario) for scenario in values["scenario"]),
        limits=Limits(**values["limits"]),
    )


def _values(path: Path, keys: Any, problems: list[CourseError]) -> dict[str, Any]:
    manifest = read_manifest(path, keys)
    problems += manifest.mistakes
    return manifest.values


def _numbered_folders(folder: Path, what: str, problems: list[CourseError]) -> list[_Found]:
    """The folders called `NN_slug` in `folder` in their order, without those whose number or name is taken."""
    found: list[_Found] = []
    for name in sorted(_entries(folder, os.DirEntry.is_dir, problems)):
        if name.startswith((".", "__")):
            continue
        one = _named(folder / name, what, problems)
        if one is None:
            continue
        if taken := next((other for other in found if other.number == one.number), None):
            problems.append(_taken(one, f"the number {one.number:02d}", taken.folder))
        elif taken := next((other for other in found if other.slug == one.slug), None):
            problems.append(_taken(one, f"the name {one.slug!r}", taken.folder))
        else:
            found.append(one)
    return found


def _named(folder: Path, what: str, problems: list[CourseError]) -> _Found | None:
    match = _FOLDER_NAME.fullmatch(folder.name)
    if match is None or match[1] == "00":
        problems.append(
            CourseError(
                f"{folder}: not the name of a folder for {'an' if what == 'exercise' else 'a'} {what}; "
                "expected two digits from 01, _ and lower-case words, like 02_tensors_on_the_device",
                "Rename the folder, or move it out of the course.",
            )
        )
        return None
    return _Found(int(match[1]), match[2], folder)


def _entries(folder: Path, wanted: Callable[[os.DirEntry[str]], bool], problems: list[CourseError]) -> set[str]:
    """The names in `folder` of files or of folders, links followed."""
    try:
        with os.scandir(folder) as entries:
            return {entry.name for entry in entries if wanted(entry)}
    except OSError as error:
        problems.append(CourseError(f"{folder}: cannot be read ({error.strerror})", "Make it readable for you."))
        return set()


def _hint_mistakes(path: Path) -> Iterable[CourseError]:
    try:
        count = len(split_hints(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError) as error:
        yield CourseError(f"{path}: cannot be read ({error})", "Save the file as UTF-8 that you may read.")
        return
    if count < FEWEST_HINTS:
        yield CourseError(
            f"{path}: expected {FEWEST_HINTS} hints or more, found {count}", "Each hint begins with a line `## …`."
        )


def _wrong_solution_mistakes(folder: Path) -> Iterable[CourseError]:
    problems: list[CourseError] = []
    if folder.is_dir():
        names = sorted(name for name in _entries(folder, os.DirEntry.is_file, problems) if name.endswith(".py"))
    else:
        names = []
    yield from problems
    if len(names) < FEWEST_WRONG_SOLUTIONS:
        yield CourseError(
            f"{folder}: expected {FEWEST_WRONG_SOLUTIONS} wrong solutions or more, found {len(names)}",
            "Write the mistakes that learners make, one file each.",
        )
    for name in names:
        path = folder / name
        try:
            with path.open("rb") as stream:
                begins_well = _FAILS_LINE.match(stream.readline(200)) is not None
        except OSError as error:
            yield CourseError(f"{path}: cannot be read ({error.strerror})", "Make it a file that you may read.")
            continue
        if not begins_well:
            yield as_error(
                path, Mistake("line 1", "expected `# fails: ` and the name of a check", "Name the check that it fails.")
            )


def _missing(path: Path) -> CourseError:
    return CourseError(f"{path}: the file is missing", "Write it; another one of its kind shows how.")


def _taken(found: _Found, what: str, by: Path) -> CourseError:
    return CourseError(f"{found.folder}: {what} is taken by {by}", "Give one of the two another one.")

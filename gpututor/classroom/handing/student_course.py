"""A course as students get it: to list, read, edit, run and hand in, with nothing that would tell a solution.

What is in it is named here, file by file, and written anew where it could hold more; everything else stays behind: the
checks, the solutions, right variants, wrong solutions, baselines, and the inputs that are drawn for them.
"""

from __future__ import annotations

import json
import re
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gpututor.classroom.handing.zips import write_zip
from gpututor.course.catalogue import STUDENT_FILES, load_course
from gpututor.course.exercise import Course, Exercise
from gpututor.course.keys import text_of
from gpututor.course.manifest import COURSE_KEYS, EXERCISE_KEYS, LESSON_KEYS
from gpututor.errors import CourseError, UsageError

MARK = 'for = "students"'
_TELLS_SOLUTIONS = ("excused_mutant",)
"""Keys of `exercise.toml` that say something of the solution."""
_BLOCK = r"\n[ \t]*(?:\n|<!--|[-*+>#]|\d+[.)]|```|~~~)"
"""Where a new block may begin: code in a sentence ends before it."""
_COMMENT = re.compile(
    r"(^ {0,3}(?:(?P<ticks>`{3,})[^`\n]*|(?P<tildes>~{3,})[^\n]*)\n"
    r".*?(?:^ {0,3}(?:(?P=ticks)`*|(?P=tildes)~*)[ \t]*$|\Z)"
    rf"|(?<![`\\])(?P<span>`+)(?!`)(?:(?!{_BLOCK}).)+?(?<!`)(?P=span)(?!`))"
    r"|^ {0,3}<!--.*?(?:-->[ \t]*\n?|\Z)|<!--.*?-->",
    re.MULTILINE | re.DOTALL,
)
"""Code, which is kept, or a comment in HTML."""


def student_course(course: Course) -> dict[str, bytes]:
    """The files by their paths in the folder of the course. Raises `CourseError` where the course has mistakes."""
    if course.problems:
        titles = "\n".join(problem.title for problem in course.problems)
        raise CourseError(f"{course.folder}: the course has mistakes.\n{titles}", "Mend them first: `gpututor verify`.")
    return {path: text.encode() for path, text in _files(course)}


def write_student_course(course: Course, out: Path) -> dict[str, bytes]:
    """Make the course for students at `out`, a zip where it is called so, else a folder, whole or not at all.

    Returns its files. Raises `UsageError` where something stands there already, or it cannot be written.
    """
    files = student_course(course)
    if out.suffix.lower() == ".zip":
        with tempfile.TemporaryDirectory() as part:
            _write(files, Path(part))  # students must not be the first to find out that it is no course
        write_zip(out, {f"{out.stem}/{path}": content for path, content in files.items()}, _is_student_course)
        return files
    if (out.exists() and (not out.is_dir() or any(out.iterdir()))) or out.is_symlink():
        raise UsageError(f"{out} is there already.", "Name a new folder with --out, or a .zip.")
    try:
        with tempfile.TemporaryDirectory(prefix=f".{out.name}.", suffix=".part", dir=_parent(out)) as part:
            whole = Path(part) / "course"
            _write(files, whole)
            whole.replace(out)
    except OSError as error:
        raise UsageError(f"{out}: cannot be written ({error.strerror})", "Name another place with --out.") from error
    return files


def _parent(out: Path) -> Path:
    parent = out.absolute().parent
    parent.mkdir(parents=True, exist_ok=True)
    return parent


def _write(files: Mapping[str, bytes], folder: Path) -> None:
    """Raises `CourseError` where what was written is no course."""
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    made = load_course(folder)
    if made.problems or not made.for_students:
        told = "\n".join(problem.title for problem in made.problems)
        raise CourseError(f"{folder}: the course for students is no course.\n{told}", "This is a fault of gpututor.")


def _files(course: Course) -> Iterator[tuple[str, str]]:
    about = _manifest(course.folder / "course.toml", [key.name for key in COURSE_KEYS if key.name != "for"])
    yield "course.toml", f"{_toml(about)}{MARK}\n"
    for lesson in course.lessons:
        place = lesson.folder.name
        yield f"{place}/lesson.toml", _toml(_manifest(lesson.folder / "lesson.toml", [key.name for key in LESSON_KEYS]))
        yield f"{place}/lesson.md", without_comments(lesson.text)
        for exercise in lesson.exercises:
            yield from _exercise(exercise, f"{place}/{exercise.folder.name}")


def _exercise(exercise: Exercise, place: str) -> Iterator[tuple[str, str]]:
    known = [key.name for key in EXERCISE_KEYS if key.name not in _TELLS_SOLUTIONS]
    yield f"{place}/exercise.toml", _toml(_manifest(exercise.folder / "exercise.toml", known))
    for name in STUDENT_FILES:
        text = exercise.file(name)
        yield f"{place}/{name}", without_comments(text) if name.endswith(".md") else text


def without_comments(markdown: str) -> str:
    """The text without comments in HTML: nobody sees them in the app, so authors may write there what is their own."""
    return _COMMENT.sub(lambda found: found[1] or "", markdown)


def _manifest(path: Path, keys: list[str]) -> dict[str, Any]:
    """What stands there of `keys`. The course was read before, so it can be read."""
    try:
        document = tomllib.loads(text_of(path))
    except (OSError, ValueError) as error:
        raise CourseError(f"{path}: cannot be read ({error})", "Restore the file, then try again.") from error
    return {key: document[key] for key in keys if key in document}


def _toml(document: Mapping[str, Any], table: str = "") -> str:
    """As TOML, without the comments that the author's file may have."""
    plain = {key: value for key, value in document.items() if not _is_table(value)}
    lines = [f"{key} = {_value(value)}\n" for key, value in plain.items()]
    for key, value in document.items():
        if isinstance(value, dict):
            lines.append(f"\n[{table}{key}]\n{_toml(value, f'{table}{key}.')}")
        elif key not in plain:
            lines += [f"\n[[{table}{key}]]\n{_toml(each, f'{table}{key}.')}" for each in value]
    return "".join(lines)


def _is_table(value: object) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and bool(value) and isinstance(value[0], dict))


def _value(value: object) -> str:
    """Texts, numbers, truth values, and lists of them: manifests hold nothing else."""
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value, ensure_ascii=False)


def _is_student_course(archive: zipfile.ZipFile) -> bool:
    names = [name for name in archive.namelist() if name.endswith("/course.toml")]
    return len(names) == 1 and MARK.encode() in archive.read(names[0])

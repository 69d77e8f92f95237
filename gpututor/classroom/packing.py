"""Packing: a student's submission as a zip, and a course without solutions for students.

What is in it is named here, file by file, and written anew where it could hold more; everything else stays behind: the
checks, the solutions, right variants, wrong solutions, baselines, and the inputs that are drawn for them.
"""

from __future__ import annotations

import ast
import io
import json
import re
import tempfile
import tomllib
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpututor import __version__
from gpututor.classroom.intake.archive import MANIFEST
from gpututor.classroom.intake.collect import refusal_of
from gpututor.course.loader import COURSE_KEYS, EXERCISE_KEYS, LESSON_KEYS, STUDENT_FILES, load_course
from gpututor.course.model import Course, Exercise
from gpututor.course.workspace import Workspace, read_submission
from gpututor.errors import CourseError, UsageError, WorkspaceError
from gpututor.files import ordinary, write_atomically
from gpututor.toml_schema import text_of

_LONG_AGO = (1980, 1, 1, 0, 0, 0)
_ORDINARY_FILE = 0o100644 << 16
_UNIX = 3


def zip_of(files: Mapping[str, bytes]) -> bytes:
    """A zip of `files` by their paths, in the order of these. Not compressed: each zlib does it in its own way."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            info = zipfile.ZipInfo(name, _LONG_AGO)
            info.external_attr, info.create_system = _ORDINARY_FILE, _UNIX
            archive.writestr(info, files[name])
    return whole.getvalue()


def write_zip(path: Path, files: Mapping[str, bytes], is_ours: Callable[[zipfile.ZipFile], bool]) -> None:
    """Put the zip at `path`. Raises `UsageError` where it cannot be written, or what stands there is not to be lost.

    `is_ours`: whether a zip that stands there is one of its kind.
    """
    if path.is_dir() or path.is_symlink() or (path.exists() and not _is_ours(path, is_ours)):
        what = "a folder" if path.is_dir() else "a link" if path.is_symlink() else "another file"
        raise UsageError(f"{path} is {what}, and is not replaced.", "Name another place with --out, or move it away.")
    try:
        write_atomically(path, zip_of(files))
    except OSError as error:
        advice = "Name another place with --out."
        raise UsageError(f"{path}: cannot be written ({error.strerror})", advice) from error


def _is_ours(path: Path, is_ours: Callable[[zipfile.ZipFile], bool]) -> bool:
    try:
        with open(path, "rb", opener=ordinary) as stream, zipfile.ZipFile(stream) as archive:
            return is_ours(archive)
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError, RuntimeError):
        return False


SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Packed:
    """One file of the zip."""

    exercise: Exercise
    path: str
    """In the workspace and in the zip, with `/`."""
    content: bytes
    warning: str = ""
    """What the student should know of it, a sentence; empty where there is nothing."""


@dataclass(frozen=True)
class LeftOut:
    """A file that is not in the zip though it was meant to be, and why: a sentence."""

    exercise: Exercise
    path: str
    why: str


@dataclass(frozen=True)
class Pack:
    """What is handed in, and what is not."""

    course: str
    """The course's `id`."""
    files: tuple[Packed, ...]
    unchanged: tuple[Exercise, ...]
    """Still as they were handed out, so not in it."""
    missing: tuple[Exercise, ...]
    """There is no file."""
    left_out: tuple[LeftOut, ...]
    others: tuple[str, ...]
    """Python files of the workspace that are no exercise's."""

    def write(self, path: Path, student: str = "") -> None:
        """Make the zip at `path`. Raises `UsageError` where it cannot be written."""
        about = {
            "schema_version": SCHEMA_VERSION,
            "course": self.course,
            "student": student,
            "gpututor": __version__,
            "exercises": {each.path: each.exercise.key for each in self.files},
        }
        manifest = json.dumps(about, indent=1, ensure_ascii=False) + "\n"
        files = {each.path: each.content for each in self.files}
        write_zip(path, {**files, MANIFEST: manifest.encode()}, _is_pack)


def named(course: Course, words: Sequence[str]) -> tuple[Exercise, ...]:
    """The exercises that are called so, or belong to lessons that are, each once; all of them without words.

    Raises `UsageError` for a word that names nothing.
    """
    if not words:
        return course.exercises
    wanted: set[str] = set()
    for word in words:
        name = Path(word).name
        found = [one for one in course.lessons if {word, name} & {str(one.number), one.slug, one.folder.name}]
        wanted.update(exercise.key for one in found for exercise in one.exercises)
        if not found:
            wanted.add(course.find(word).key)
    return tuple(exercise for exercise in course.exercises if exercise.key in wanted)


def pack_of(course: Course, workspace: Workspace, exercises: Iterable[Exercise]) -> Pack:
    """What of `exercises` is there to be handed in. No link is followed below the workspace."""
    files: list[Packed] = []
    unchanged: list[Exercise] = []
    missing: list[Exercise] = []
    left_out: list[LeftOut] = []
    for exercise in exercises:
        file = workspace.path_of(exercise)
        path = file.relative_to(workspace.folder).as_posix()
        try:
            if not (file.is_symlink() or file.exists()):
                missing.append(exercise)
                continue
            text = _read(file)
        except (WorkspaceError, OSError) as error:
            left_out.append(LeftOut(exercise, path, _why(error)))
            continue
        if workspace.is_starter(exercise, text):
            unchanged.append(exercise)
        elif refusal := refusal_of(text.encode()):
            left_out.append(LeftOut(exercise, path, refusal))
        else:
            files.append(Packed(exercise, path, text.encode(), _warning(text)))
    return Pack(
        course.id, tuple(files), tuple(unchanged), tuple(missing), tuple(left_out), tuple(_others(course, workspace))
    )


def _read(file: Path) -> str:
    if file.parent.is_symlink():
        raise WorkspaceError(f"{file.parent} is a link.", "")
    return read_submission(file, follow_links=False)


def _why(error: WorkspaceError | OSError) -> str:
    return error.title if isinstance(error, WorkspaceError) else f"It cannot be read: {error.strerror}."


def _warning(text: str) -> str:
    """What keeps Python from reading it."""
    if not text.strip():
        return "It is empty."
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except SyntaxError as error:
        where = f"line {error.lineno}: " if error.lineno else ""
        return f"Python cannot read it: {where}{error.msg}."
    except (ValueError, RecursionError, MemoryError) as error:
        return f"Python cannot read it: {str(error) or 'it is nested too deeply'}."
    return ""


def _others(course: Course, workspace: Workspace) -> Iterable[str]:
    """Where learners put their files, and no deeper."""
    known = {workspace.path_of(exercise) for exercise in course.exercises}
    for folder in (workspace.folder, *(workspace.folder / lesson.folder.name for lesson in course.lessons)):
        try:
            found = sorted(
                path for path in folder.glob("*.py") if not folder.is_symlink() or folder == workspace.folder
            )
        except OSError:
            continue
        yield from (path.relative_to(workspace.folder).as_posix() for path in found if path not in known)


def _is_pack(archive: zipfile.ZipFile) -> bool:
    return MANIFEST in archive.namelist()


def checked_out(path: Path | None, course: Course) -> Path:
    """Where the zip is to be: in the folder where one is, by default. Raises `UsageError` for a name without `.zip`."""
    name = f"{course.place or 'gpututor'}-pack.zip"
    if path is None:
        return Path(name)
    if path.is_dir():
        return path / name
    if path.suffix.lower() != ".zip":
        raise UsageError(f"{path} is not called .zip, and would not be opened.", "Such as --out my_work.zip.")
    return path


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

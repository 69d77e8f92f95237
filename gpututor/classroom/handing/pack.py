"""A student's zip: the solution files that are to be handed in, and a manifest that says what they are."""

from __future__ import annotations

import ast
import json
import warnings
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpututor import __version__
from gpututor.classroom.handing.zips import write_zip
from gpututor.classroom.intake.content import refusal_of
from gpututor.classroom.intake.manifest import MANIFEST, PACK_ENDS
from gpututor.course.exercise import Course, Exercise
from gpututor.course.solution_file import read_submission
from gpututor.course.workspace import Workspace
from gpututor.errors import UsageError, WorkspaceError

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
    name = f"{course.place or 'gpututor'}{PACK_ENDS}.zip"
    if path is None:
        return Path(name)
    if path.is_dir():
        return path / name
    if path.suffix.lower() != ".zip":
        raise UsageError(f"{path} is not called .zip, and would not be opened.", "Such as --out my_work.zip.")
    return path

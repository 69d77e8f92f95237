"""The learner's workspace: its folder and files, and reading a solution file safely."""

from __future__ import annotations

import codecs
import contextlib
import errno
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpututor import paths
from gpututor.course.model import MAX_SUBMISSION_BYTES, OWN_ID, Course, Exercise
from gpututor.errors import WorkspaceError
from gpututor.files import (
    create_atomically,
    ordinary,
    ordinary_and_no_link,
    replace_backed_up,
    replace_known,
    write_atomically,
)


def read_submission(path: Path, *, follow_links: bool) -> str:
    """Return the text of a solution file, newlines as they are, without a byte order mark.

    Raises `WorkspaceError` for a file that is not ordinary, too large, not UTF-8, unreadable, or a symbolic link unless
    `follow_links`.
    """
    try:
        with open(path, "rb", opener=ordinary if follow_links else ordinary_and_no_link) as stream:
            content = stream.read(MAX_SUBMISSION_BYTES + 1)
    except FileNotFoundError as error:
        raise WorkspaceError(f"{path} is not there.", "It may have been moved or renamed.") from error
    except PermissionError as error:
        raise WorkspaceError(f"{path} cannot be read: {error.strerror}.", "Give yourself read permission.") from error
    except OSError as error:
        if error.errno == errno.ELOOP and not follow_links and path.is_symlink():
            raise WorkspaceError(f"{path} is a link.", "Name the file that it leads to.") from error
        reason = "Not an ordinary file" if isinstance(error, IsADirectoryError) else error.strerror
        advice = "A solution is a Python file; move this away."
        raise WorkspaceError(f"{path} cannot be read: {reason}.", advice) from error
    if len(content) > MAX_SUBMISSION_BYTES:
        title = f"{path} is larger than {MAX_SUBMISSION_BYTES >> 20} MiB."
        raise WorkspaceError(title, "A solution is a short Python file.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise WorkspaceError(f"{path} is not UTF-8 text (line {line}).", "Save it as UTF-8 in your editor.") from error


MARKER = ".gpututor.json"
"""The file of every workspace: the SHA-256 of the learner's starter for each exercise."""
BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True)
class Workspace:
    """A learner's folder."""

    folder: Path

    def path_of(self, exercise: Exercise) -> Path:
        """Return the learner's file, such as `02_tensors_on_the_device/01_born_on_the_device.py`."""
        return self.folder / exercise.folder.parent.name / f"{exercise.folder.name}.py"

    def read(self, exercise: Exercise) -> str:
        """Return the text of the learner's file, which may be a link, as `read_submission` does."""
        path = self.path_of(exercise)
        try:
            return read_submission(path, follow_links=True)
        except WorkspaceError as error:
            again = "`gpututor init` recreates missing files."
            if path.is_file():
                again = f"`gpututor reset {exercise.slug}` restores the starter, and saves a backup."
            raise WorkspaceError(error.title, f"{error.advice} {again}") from error

    @property
    def backups(self) -> Path:
        """Folder of the learner's replaced files."""
        return self.folder / ".backups"

    def write(self, exercise: Exercise, text: str, *, over: str | None = None) -> None:
        """Write the learner's file atomically; create a missing file or folder, and keep a byte order mark.

        Raises `ChangedMeanwhile` if `over` is given and the file contains another text.
        """

        def is_known(content: bytes) -> bool:
            return over is None or content.removeprefix(codecs.BOM_UTF8) == over.encode()

        path = self.path_of(exercise)
        with _errors_converted(path, "written"):
            replace_known(path, _marked_as(path, text), is_known)

    def write_over_any(self, exercise: Exercise, text: str) -> Path | None:
        """Write the learner's file, even over one that is unreadable; return the backup of that, if any."""
        path = self.path_of(exercise)
        with _errors_converted(path, "written"):
            if create_atomically(path, text):
                return None
            return replace_backed_up(path, _marked_as(path, text), self.backups)

    def ensure(self, exercise: Exercise) -> Path:
        """Return the learner's file; create it from the starter if it is missing."""
        path = self.path_of(exercise)
        with _errors_converted(path, "made"):
            if path.exists() or not create_atomically(path, starter := exercise.starter):
                return path
        self._remember_starters({exercise.key: _digest(starter)})
        return path

    def reset(self, exercise: Exercise) -> Path:
        """Replace the learner's file by the starter; return its backup."""
        path, starter = self.ensure(exercise), exercise.starter
        with _errors_converted(path, "reset"):
            backup = replace_backed_up(path, starter, self.backups)
        self._remember_starters({exercise.key: _digest(starter)})
        return backup

    def newer_starter(self, exercise: Exercise) -> bool:
        """Return True if the course's starter has changed since the learner got it."""
        handed_out = self._handed_out().get(exercise.key)
        return isinstance(handed_out, str) and handed_out != _digest(exercise.starter)

    def is_starter(self, exercise: Exercise, text: str) -> bool:
        """Return True if `text` is the exercise's starter, or the starter that the learner got."""
        return _digest(text) in (_digest(exercise.starter), self._handed_out().get(exercise.key))

    @property
    def course(self) -> str | None:
        """The `id` of its course; None if unknown."""
        name = self._marker().get("course")
        return name if isinstance(name, str) else None

    def _handed_out(self) -> dict[str, object]:
        """Return the digests in the marker. Without them, only changes of starters go unnoticed."""
        digests = self._marker().get("handed_out")
        return digests if isinstance(digests, dict) else {}

    def _marker(self) -> dict[str, object]:
        """Return the contents of the marker; empty if it cannot be read."""
        try:
            with open(self.folder / MARKER, encoding="utf-8", opener=ordinary) as stream:
                marker = json.load(stream)
        except (OSError, ValueError, RecursionError):
            return {}
        return marker if isinstance(marker, dict) else {}

    def _remember_starters(self, digests: dict[str, str], course: str = "") -> None:
        marker = self.folder / MARKER
        with _errors_converted(marker, "written"), _alone_in(self.folder):
            name = self.course or course
            content = {"schema_version": 1, **({"course": name} if name else {})}
            content["handed_out"] = {**self._handed_out(), **digests}
            write_atomically(marker, json.dumps(content, indent=1) + "\n")


def find_workspace(explicit: Path | None = None, course: Course | None = None) -> Workspace | None:
    """Return the learner's folder for `course`, by default the course that comes with gpututor; None without one.

    If `explicit` is given, only that folder counts. Otherwise the current folder and its parents are searched, then the
    workspace made last, or the default workspace if none was made. Workspaces of other courses are skipped. If the
    workspace made last is missing, `check_not_missing` raises an error.
    """
    if explicit is not None:
        return _workspace_in(explicit)
    name, place = (course.id, course.place) if course else (OWN_ID, "")
    for workspace in _workspaces_here():
        if workspace.course in (None, name):
            return workspace
    try:
        remembered = _remembered(place)
    except WorkspaceError:
        return None  # not the default: see `check_not_missing`
    return _workspace_in(remembered or paths.default_workspace(place))


def other_course_here(course: Course) -> Workspace | None:
    """Return the nearest workspace of another course in the current folder or its parents."""
    return next((other for other in _workspaces_here() if other.course not in (None, course.id)), None)


def _workspaces_here() -> list[Workspace]:
    with contextlib.suppress(FileNotFoundError):  # the current folder may have been removed
        here = Path.cwd()
        return [workspace for folder in (here, *here.parents) if (workspace := _workspace_in(folder))]
    return []


def check_not_missing(course: Course) -> None:
    """Raise `WorkspaceError` if the learner's folder is missing, or if the file with its path cannot be read.

    The folder may have been moved, or its disk is not mounted. It is not replaced: an empty or older folder would look
    as if the work were lost.
    """
    folder = _remembered(course.place)
    if folder is not None and _workspace_in(folder) is None:
        raise WorkspaceError(
            f"Your files are in {folder}, but that folder is missing now.",
            "Restore the folder, or name its new place: `gpututor init DIR` changes no existing file. "
            f"To start with new files: `gpututor init {paths.default_workspace(course.place)}`.",
        )


def make_workspace(folder: Path, course: Course, *, remember: bool = True) -> tuple[Workspace, list[Path]]:
    """Create the files of `course` that are missing in `folder`; return the new files.

    The folder becomes the course's default folder; with `remember=False`, only if the course has none yet.
    """
    remembered = paths.remembered_workspace_file(course.place)
    is_first = not remembered.exists() and _workspace_in(paths.default_workspace(course.place)) is None
    workspace = Workspace(Path(os.path.abspath(folder.expanduser())))
    with _errors_converted(workspace.folder, "made"):
        workspace.folder.mkdir(parents=True, exist_ok=True)
    new, digests = [], {}
    for exercise in course.exercises:
        path = workspace.path_of(exercise)
        with _errors_converted(path, "made"):
            if not path.exists() and create_atomically(path, exercise.starter):
                new.append(path)
                digests[exercise.key] = _digest(exercise.starter)
    workspace._remember_starters(digests, course.id)
    if remember or is_first:
        with _errors_converted(remembered, "written"):
            write_atomically(remembered, f"{workspace.folder}\n")
    return workspace, new


def _workspace_in(folder: Path) -> Workspace | None:
    folder = Path(os.path.abspath(folder.expanduser()))
    return Workspace(folder) if (folder / MARKER).is_file() else None


def _remembered(place: str) -> Path | None:
    """Return the folder of the workspace made last; None if there is none. Raises `WorkspaceError`."""
    file = paths.remembered_workspace_file(place)
    try:
        with open(file, encoding="utf-8", opener=ordinary) as stream:
            line = stream.read().strip()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else "it is not UTF-8 text"
        advice = "It contains the path of your folder. `gpututor init DIR` writes it again; your files stay."
        raise WorkspaceError(f"{file} cannot be read: {reason}.", advice) from error
    return Path(line) if line else None


def _marked_as(path: Path, text: str) -> str:
    """Return the text with a byte order mark if the file has one."""
    with contextlib.suppress(OSError), open(path, "rb", opener=ordinary) as stream:  # writing reports a real error
        if stream.read(3) == codecs.BOM_UTF8:
            return BYTE_ORDER_MARK + text
    return text


def _digest(text: str) -> str:
    import hashlib

    return hashlib.sha256(text.encode()).hexdigest()


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Lock `folder` against other gpututor processes."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):  # no locks here: then a change of a starter may go unnoticed
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _errors_converted(path: Path, what: str) -> Iterator[None]:
    """Convert errors of the file system to `WorkspaceError`."""
    try:
        yield
    except PermissionError as error:
        advice = f"Give yourself write permission for {path.parent}, or use another folder: `gpututor init DIR`."
        raise WorkspaceError(f"{path} cannot be {what}: {error.strerror}.", advice) from error
    except UnicodeEncodeError as error:
        title = f"{path} cannot be {what}: the text contains an invalid character."
        raise WorkspaceError(title, "Remove the character.") from error
    except (OSError, RuntimeError) as error:  # RuntimeError: circular links
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        advice = f"Check {path.parent}, or use another folder: `gpututor init DIR`."
        raise WorkspaceError(f"{path} cannot be {what}: {reason}.", advice) from error

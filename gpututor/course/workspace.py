"""The learner's workspace: its folder, and how a solution file is read safely."""

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
    """The text of a solution file, newlines as they are, without a byte order mark.

    Raises `WorkspaceError` for what is no ordinary file, is over `MAX_SUBMISSION_BYTES`, is not UTF-8, cannot be read,
    or, unless `follow_links`, is a symbolic link.
    """
    try:
        with open(path, "rb", opener=ordinary if follow_links else ordinary_and_no_link) as stream:
            content = stream.read(MAX_SUBMISSION_BYTES + 1)
    except FileNotFoundError as error:
        raise WorkspaceError(f"{path} is not there.", "It may have been moved, or have another name.") from error
    except PermissionError as error:
        raise WorkspaceError(
            f"{path} cannot be read: {error.strerror}.", "Give yourself the right to read it."
        ) from error
    except OSError as error:
        if error.errno == errno.ELOOP and not follow_links and path.is_symlink():
            raise WorkspaceError(f"{path} is a link.", "Name the file that it leads to.") from error
        reason = "Not an ordinary file" if isinstance(error, IsADirectoryError) else error.strerror
        raise WorkspaceError(
            f"{path} cannot be read: {reason}.", "A solution is a Python file; move this away."
        ) from error
    if len(content) > MAX_SUBMISSION_BYTES:
        advice = "A solution is a short Python file."
        raise WorkspaceError(f"{path} is larger than {MAX_SUBMISSION_BYTES >> 20} MiB.", advice)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise WorkspaceError(f"{path} is not UTF-8 text (line {line}).", "Save it as UTF-8 in your editor.") from error


MARKER = ".gpututor.json"
"""The file that makes a folder a workspace: which starter was handed out for each exercise, by its SHA-256."""
BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True)
class Workspace:
    """A learner's folder."""

    folder: Path

    def path_of(self, exercise: Exercise) -> Path:
        """The learner's file for `exercise`, such as `02_tensors_on_the_device/01_born_on_the_device.py`."""
        return self.folder / exercise.folder.parent.name / f"{exercise.folder.name}.py"

    def read(self, exercise: Exercise) -> str:
        """What the learner's file holds, as `read_submission` reads it; the file may be a link."""
        path = self.path_of(exercise)
        try:
            return read_submission(path, follow_links=True)
        except WorkspaceError as error:
            again = "`gpututor init` makes missing files again."
            if path.is_file():
                again = f"`gpututor reset {exercise.slug}` begins again, and keeps a backup."
            raise WorkspaceError(error.title, f"{error.advice} {again}") from error

    @property
    def backups(self) -> Path:
        """Where what a learner wrote is kept when something else takes its place."""
        return self.folder / ".backups"

    def write(self, exercise: Exercise, text: str, *, over: str | None = None) -> None:
        """Put `text` in the learner's file, all of it or nothing; the file and its folder are made if need be.

        A byte order mark stays where there is one. `over`: the text that it may take the place of; for any other one
        that others wrote `ChangedMeanwhile` is raised.
        """

        def is_known(content: bytes) -> bool:
            return over is None or content.removeprefix(codecs.BOM_UTF8) == over.encode()

        path = self.path_of(exercise)
        with _told(path, "written"):
            replace_known(path, BYTE_ORDER_MARK + text if _has_byte_order_mark(path) else text, is_known)

    def write_new(self, exercise: Exercise, text: str) -> bool:
        """Put `text` in the learner's file where there is none; whether there was none."""
        path = self.path_of(exercise)
        with _told(path, "written"):
            return create_atomically(path, text)

    def write_over_any(self, exercise: Exercise, text: str) -> Path:
        """Replace what others wrote into the learner's file; return where that is kept."""
        path = self.path_of(exercise)
        with _told(path, "written"):
            marked = BYTE_ORDER_MARK + text if _has_byte_order_mark(path) else text
            return replace_backed_up(path, marked, self.backups)

    def ensure(self, exercise: Exercise) -> Path:
        """The learner's file, made from the starter when it is not there."""
        self._create(exercise)
        return self.path_of(exercise)

    def reset(self, exercise: Exercise) -> Path:
        """Put the starter in the learner's file, and return where the text that stood there is kept."""
        path, starter = self.ensure(exercise), exercise.starter
        with _told(path, "reset"):
            backup = replace_backed_up(path, starter, self.backups)
        self._remember_starters({exercise.key: _digest(starter)})
        return backup

    def newer_starter(self, exercise: Exercise) -> bool:
        """Whether the course's starter is another one than the learner got, and the learner has not got it since."""
        handed_out = self._handed_out().get(exercise.key)
        return handed_out is not None and handed_out != _digest(exercise.starter)

    def is_starter(self, exercise: Exercise, text: str) -> bool:
        """Whether `text` is what the learner was given for `exercise`, now or before."""
        return _digest(text) in (_digest(exercise.starter), self._handed_out().get(exercise.key))

    def _create(self, exercise: Exercise) -> bool:
        """Make the learner's file from the starter where nothing is yet; say whether it was made."""
        path = self.path_of(exercise)
        with _told(path, "made"):
            if path.exists():
                return False
            starter = exercise.starter
            if not create_atomically(path, starter):
                return False
        self._remember_starters({exercise.key: _digest(starter)})
        return True

    @property
    def course(self) -> str | None:
        """The `id` of the course that it was made for, None where nobody wrote that down."""
        name = self._marker().get("course")
        return name if isinstance(name, str) else None

    def _handed_out(self) -> dict[str, str]:
        """The digests in the marker. A marker that cannot be read costs only the news of changed starters."""
        kept = self._marker().get("handed_out")
        if not isinstance(kept, dict):
            return {}
        return {key: digest for key, digest in kept.items() if isinstance(digest, str)}

    def _marker(self) -> dict[str, object]:
        """What the marker holds; nothing where it cannot be read."""
        try:
            with open(self.folder / MARKER, encoding="utf-8", opener=ordinary) as stream:
                marker = json.load(stream)
        except (OSError, ValueError, RecursionError):
            return {}
        return marker if isinstance(marker, dict) else {}

    def _remember_starters(self, digests: dict[str, str], course: str = "") -> None:
        marker = self.folder / MARKER
        with _told(marker, "written"), _alone_in(self.folder):
            name = self.course or course
            kept = {"schema_version": 1, **({"course": name} if name else {})}
            kept["handed_out"] = {**self._handed_out(), **digests}
            write_atomically(marker, json.dumps(kept, indent=1) + "\n")


def find_workspace(explicit: Path | None = None, course: Course | None = None) -> Workspace | None:
    """The learner's folder for `course`, by default the one that comes with gpututor; None when it was not made yet.

    `explicit` alone when it is given; else the nearest workspace from here upwards that is not another course's, the
    one made last, the default one. None too when the one made last is not there: see `check_not_missing`.
    """
    if explicit is not None:
        return _workspace_in(explicit)
    name, place = (course.id, course.place) if course else (OWN_ID, "")
    for workspace in _workspaces_here():
        if workspace.course in (None, name):
            return workspace
    return _workspace_in(_remembered(place) or paths.default_workspace(place))


def other_course_here(course: Course) -> Workspace | None:
    """The nearest workspace from here upwards that is another course's."""
    return next((found for found in _workspaces_here() if found.course not in (None, course.id)), None)


def _workspaces_here() -> Iterator[Workspace]:
    here: list[Path] = []
    with contextlib.suppress(FileNotFoundError):  # the current folder may have been removed
        here = [Path.cwd(), *Path.cwd().parents]
    for folder in here:
        if workspace := _workspace_in(folder):
            yield workspace


def check_not_missing(course: Course) -> None:
    """Raise `WorkspaceError` where the learner has a folder that is not there now: moved, or on a disk that is not in.

    Nothing stands in for it: an empty folder, or an older one, would look as if the work were lost.
    """
    folder = _remembered(course.place)
    if folder is not None and _workspace_in(folder) is None:
        raise WorkspaceError(
            f"Your files are in {folder}, and that folder is not there now.",
            "Bring it back; or, if you moved it, say where it is: `gpututor init DIR` changes nothing that is in it. "
            f"To begin with new files: `gpututor init {paths.default_workspace(course.place)}`.",
        )


def make_workspace(folder: Path, course: Course, *, remember: bool = True) -> tuple[Workspace, list[Path]]:
    """Make the files of `course` that are missing in `folder`; returns the new files.

    From now on it is the folder that is used for this course where none is named; unless `remember` is false: then only
    if there is no other.
    """
    is_first = _remembered(course.place) is None and _workspace_in(paths.default_workspace(course.place)) is None
    workspace = Workspace(Path(os.path.abspath(folder.expanduser())))
    with _told(workspace.folder, "made"):
        workspace.folder.mkdir(parents=True, exist_ok=True)
    new, digests = [], {}
    for exercise in course.exercises:
        path = workspace.path_of(exercise)
        with _told(path, "made"):
            if not path.exists() and create_atomically(path, exercise.starter):
                new.append(path)
                digests[exercise.key] = _digest(exercise.starter)
    workspace._remember_starters(digests, course.id)
    remembered = paths.remembered_workspace_file(course.place)
    if remember or is_first:
        with _told(remembered, "written"):
            write_atomically(remembered, f"{workspace.folder}\n")
    return workspace, new


def _workspace_in(folder: Path) -> Workspace | None:
    folder = Path(os.path.abspath(folder.expanduser()))
    return Workspace(folder) if (folder / MARKER).is_file() else None


def _remembered(place: str) -> Path | None:
    try:
        with open(paths.remembered_workspace_file(place), encoding="utf-8", opener=ordinary) as stream:
            line = stream.read().strip()
    except (OSError, UnicodeDecodeError):
        return None
    return Path(line) if line else None


def _has_byte_order_mark(path: Path) -> bool:
    try:
        with open(path, "rb", opener=ordinary) as stream:
            return stream.read(3) == BYTE_ORDER_MARK.encode()
    except OSError:
        return False


def _digest(text: str) -> str:
    import hashlib

    return hashlib.sha256(text.encode()).hexdigest()


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Hold off other gpututors that want to do the same in `folder`."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks: then only the news of a starter is at stake
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _told(path: Path, what: str) -> Iterator[None]:
    """Turn a refusal of the file system into words."""
    try:
        yield
    except PermissionError as error:
        advice = f"Give yourself the right to write in {path.parent}, or take another folder: `gpututor init DIR`."
        raise WorkspaceError(f"{path} cannot be {what}: {error.strerror}.", advice) from error
    except UnicodeEncodeError as error:
        raise WorkspaceError(f"{path} cannot be {what}: a character is not text.", "Remove the character.") from error
    except (OSError, RuntimeError) as error:  # RuntimeError: links that lead to themselves
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        advice = f"Look at {path.parent}, or take another folder: `gpututor init DIR`."
        raise WorkspaceError(f"{path} cannot be {what}: {reason}.", advice) from error

"""The learner's open file: saves edits, detects changes by other programs, never loses text.

Each running app has drafts of its own, and holds a lock on them: what nobody holds was left by an app that ended. On
a file system without locks all drafts look left: there they are copied, and only their owner removes them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpututor.course.model import Exercise
from gpututor.course.workspace import Workspace
from gpututor.errors import TutorError
from gpututor.files import ChangedMeanwhile, back_up_text, ordinary, temporary_file_for
from gpututor.paths import drafts_folder

_copied: set[tuple[Path, str]] = set()
"""The drafts that cannot be locked, with their text, that this process has taken: they are still there."""


class Draft:
    """The draft of one file that this app has, if any."""

    def __init__(self, of: Path) -> None:
        import hashlib

        place = hashlib.sha256(os.fsencode(os.path.abspath(of))).hexdigest()[:16]
        self._begin = f"{of.stem}.{place}."
        self._path: Path | None = None
        self._lock: int | None = None

    def keep(self, text: str) -> None:
        """Put `text` in the draft, which is made if need be. Raises `OSError`."""
        path = self._path or drafts_folder() / f"{self._begin}{os.urandom(4).hex()}.py"
        encodable = text.encode("utf-8", errors="replace").decode()  # halves of surrogate pairs may be why it is one
        with temporary_file_for(path, encodable) as part:
            lock, _ = _locked(part) or (None, False)  # before it has its name: nobody else ever sees it as left
            part.replace(path)
        self.let_go()
        self._path, self._lock = path, lock

    def take_left(self, known: str) -> str | None:
        """The oldest draft that an app left, which is ours from now on; None where none is.

        One that holds nothing but `known`, the text of the file, is removed.
        """
        for path in self._all():
            if path == self._path or (held := _locked(path)) is None:
                continue
            lock, is_ours = held
            try:
                with open(path, encoding="utf-8", newline="", opener=ordinary) as stream:
                    text = stream.read()
            except (OSError, UnicodeDecodeError):
                os.close(lock)
                continue
            if is_ours:
                self.let_go()
                self._path, self._lock = path, lock
                if text != known:
                    return text
                self.forget()
                continue
            os.close(lock)
            if text != known and (path, text) not in _copied:
                self.let_go()
                with contextlib.suppress(OSError):  # it is there all the same
                    self.keep(text)
                _copied.add((path, text))
                return text
        return None

    def forget(self) -> None:
        """There is nothing any more that is not saved."""
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)
        self.let_go()

    def let_go(self) -> None:
        """From now on it is a draft that was left, to be found by whoever opens the file next."""
        if self._lock is not None:
            os.close(self._lock)
        self._path = self._lock = None

    def _all(self) -> Iterator[Path]:
        """The oldest first."""
        try:
            found = [path for path in drafts_folder().iterdir() if path.name.startswith(self._begin)]
            found.sort(key=lambda path: path.stat().st_mtime_ns)
        except OSError:  # no folder yet; or one of them was just taken by another app
            return
        yield from found


def _locked(path: Path) -> tuple[int, bool] | None:
    """A descriptor of the file, and whether it holds the lock: False on a file system without locks.

    None where another has it, or the file is gone.
    """
    try:
        descriptor = ordinary(str(path), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    is_ours = True
    with contextlib.suppress(FileNotFoundError):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except OSError:
            is_ours = False
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            return descriptor, is_ours
    os.close(descriptor)  # its owner just wrote a newer one, or ended with it
    return None


Stamp = tuple[int, int, int]
"""Modification time in ns, size in bytes, inode."""

SETTLED_NS = 2_000_000_000
"""A file that is younger may be changed again within one tick of its file system's clock, with no other stamp."""


@dataclass(frozen=True)
class Reloaded:
    """The file changed on disk and the learner had no edits: the new text."""

    text: str


@dataclass(frozen=True)
class Conflict:
    """The file changed on disk and in the editor: the text on disk."""

    theirs: str


@dataclass(frozen=True)
class Gone:
    """There is no file any more."""


class OpenFile:
    """One exercise's file, as it is on disk and as it is in the editor.

    `mine` below is always the editor's text, whose lines end in \\n; the file keeps the line ends that it has. Every
    method may raise `WorkspaceError` or `OSError`.
    """

    def __init__(self, workspace: Workspace, exercise: Exercise) -> None:
        self.workspace = workspace
        self.exercise = exercise
        self.path = workspace.ensure(exercise)
        self._stamp: Stamp | None = None
        """Of the file when it was last read, None while it is too young to be told from a newer one by that."""
        self._on_disk = ""
        self._unedited = ""
        self._line_end = "\n"
        self._draft = Draft(self.path)

    def read(self) -> str:
        """The text on disk, which is from now on what edits are compared with."""
        stamp = _stamp(self.path)
        self._on_disk = self.workspace.read(self.exercise)
        self._stamp = _settled(stamp)
        self._line_end = "\r\n" if "\r\n" in self._on_disk else "\n"
        self._unedited = _lines_of(self._on_disk)
        return self._unedited

    def loaded(self, mine: str) -> None:
        """An editor may give a text back with other line ends: this is what it made of the text that was read."""
        self._unedited = mine

    def edited(self, mine: str) -> bool:
        return mine != self._unedited

    def save(self, mine: str) -> bool:
        """Write the edits; False when the file was changed by somebody else meanwhile and so was left alone."""
        if not self.edited(mine) and self.path.exists():
            return True
        if self._changed_by_others(mine):
            return False
        text = self._as_file(mine)
        try:
            self.workspace.write(self.exercise, text, over=self._on_disk)
        except ChangedMeanwhile:
            self._stamp = None
            return False
        self._saved(mine, text)
        return True

    def look(self, mine: str) -> Reloaded | Conflict | Gone | None:
        """Return what another program did to the file since the last look; costs one stat when nothing."""
        if _stamp(self.path) is None:
            return Gone()
        if not self._changed_by_others(mine):
            return None
        if self.edited(mine):
            return Conflict(_lines_of(self.workspace.read(self.exercise)))
        return Reloaded(self.read())

    def keep_mine(self, mine: str) -> Path | None:
        """End a conflict with the editor's text; returns where the file's text was kept, None where there was none."""
        text = self._as_file(mine)
        is_new = self.workspace.write_new(self.exercise, text)
        kept = None if is_new else self.workspace.write_over_any(self.exercise, text)
        self._saved(mine, text)
        return kept

    def take_theirs(self, mine: str) -> tuple[str, Path]:
        """End a conflict with the file's text; returns it, and where the editor's text was kept."""
        # First: where it cannot be kept, the conflict is still there, and the file is nobody's to write over.
        kept = back_up_text(self._as_file(mine), self.path.name, self.workspace.backups)
        text = self.read()
        self._draft.forget()
        return text, kept

    def rescue(self, mine: str) -> None:
        """The program is told to end at once: what cannot be saved in its place is kept as a draft."""
        with contextlib.suppress(TutorError, OSError):  # the draft may be on another disk, or only the file locked
            if self.save(mine):
                return
        self.keep_draft(mine)

    # Drafts: what was typed and could not be saved in its place

    def keep_draft(self, mine: str) -> None:
        self._draft.keep(mine)

    def draft(self) -> str | None:
        """What an app that ended could not save; None when there is nothing that the file does not hold."""
        return self._draft.take_left(_lines_of(self._on_disk))

    def leave(self) -> None:
        """The file is not open here any more: its draft is for whoever opens it next."""
        self._draft.let_go()

    def _changed_by_others(self, mine: str) -> bool:
        stamp = _stamp(self.path)
        if stamp is None or stamp == self._stamp:
            return False
        theirs = self.workspace.read(self.exercise)
        if theirs in (self._on_disk, self._as_file(mine)):
            self._unedited = mine if theirs == self._as_file(mine) else self._unedited
            self._on_disk, self._stamp = theirs, _settled(stamp)
            return False
        return True

    def _saved(self, mine: str, text: str) -> None:
        self._unedited, self._on_disk = mine, text
        self._stamp = None  # another program may have written since: read again next time
        self._draft.forget()

    def _as_file(self, mine: str) -> str:
        return mine if self._line_end == "\n" else mine.replace("\n", self._line_end)


def _lines_of(text: str) -> str:
    return text.replace("\r\n", "\n")


def _stamp(path: Path) -> Stamp | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _settled(stamp: Stamp | None) -> Stamp | None:
    """The stamp, where another one would follow a change from now on."""
    return stamp if stamp is not None and abs(time.time_ns() - stamp[0]) > SETTLED_NS else None

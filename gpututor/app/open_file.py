"""The learner's open file: saves edits, detects changes by other programs, never loses text.

Each running app has its own drafts, and locks them: a draft without a lock was left by an app that ended. On a file
system without locks all drafts look left. There they are copied, and only their owner removes them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from dataclasses import dataclass
from pathlib import Path

from gpututor.course.model import Exercise
from gpututor.course.workspace import Workspace
from gpututor.errors import TutorError
from gpututor.files import ChangedMeanwhile, Stamp, back_up_text, ordinary, stamp_of, temporary_file_for
from gpututor.paths import drafts_folder

_copied: set[tuple[Path, str]] = set()
"""(path, text) of drafts that cannot be locked and that this process has taken: they still exist."""


class Draft:
    """This app's draft of one file, if there is one."""

    def __init__(self, of: Path) -> None:
        import hashlib

        place = hashlib.sha256(os.fsencode(os.path.abspath(of))).hexdigest()[:16]
        self._begin = f"{of.stem}.{place}."
        self._path: Path | None = None
        self._lock: int | None = None

    def save(self, text: str) -> None:
        """Write `text` to the draft. Raises `OSError`."""
        path = self._path or drafts_folder() / f"{self._begin}{os.urandom(4).hex()}.py"
        encodable = text.encode("utf-8", errors="replace").decode()  # a lone surrogate cannot be written
        with temporary_file_for(path, encodable) as part:
            lock, _ = _locked(part) or (None, False)  # before the rename: no app sees it unlocked
            part.replace(path)
        self.release()
        self._path, self._lock = path, lock

    def take_abandoned(self, known: str) -> str | None:
        """Take over the oldest abandoned draft, and return its text, if any; remove drafts with the text `known`."""
        for path in self._all():
            if path == self._path or (held := _locked(path)) is None:
                continue
            lock, is_ours = held
            try:
                with open(path, encoding="utf-8", newline="", opener=ordinary) as stream:
                    text = stream.read()
            except (OSError, UnicodeDecodeError):  # another program damaged the draft: it stays in its folder
                os.close(lock)
                continue
            if is_ours:
                self.release()
                self._path, self._lock = path, lock
                if text != known:
                    return text
                self.remove()
                continue
            os.close(lock)
            if text != known and (path, text) not in _copied:
                self.release()
                with contextlib.suppress(OSError):  # the original still exists
                    self.save(text)
                _copied.add((path, text))
                return text
        return None

    def remove(self) -> None:
        """Remove the draft: everything is saved."""
        if self._path is not None:
            with contextlib.suppress(OSError):  # the next app offers the draft, but removes it if the file has its text
                self._path.unlink(missing_ok=True)
        self.release()

    def release(self) -> None:
        """Release the draft for the next app that opens the file."""
        if self._lock is not None:
            os.close(self._lock)
        self._path = self._lock = None

    def _all(self) -> list[Path]:
        """Return all drafts of the file, the oldest first."""
        try:
            drafts = (path for path in drafts_folder().iterdir() if path.name.startswith(self._begin))
            return sorted(drafts, key=lambda path: path.stat().st_mtime_ns)
        except OSError:  # no folder yet; or another app has just taken a draft
            return []


def _locked(path: Path) -> tuple[int, bool] | None:
    """Return a descriptor, and True if it holds the lock; None if the file is locked or gone."""
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
    os.close(descriptor)  # its owner has just replaced or removed it
    return None


SETTLED_NS = 2_000_000_000
"""Age in ns from which a stamp is reliable: file systems round times, so two quick changes may have the same stamp."""


@dataclass(frozen=True)
class Reloaded:
    """New text of a file that changed on disk, without edits by the learner."""

    text: str


@dataclass(frozen=True)
class Conflict:
    """Text on disk of a file that changed there and in the editor."""

    theirs: str


@dataclass(frozen=True)
class Gone:
    """The file does not exist any more."""


class OpenFile:
    """An exercise's file, on disk and in the editor.

    `mine` is always the editor's text, whose lines end in \\n; the file keeps its own line ends. Every method may raise
    `WorkspaceError` or `OSError`.
    """

    def __init__(self, workspace: Workspace, exercise: Exercise) -> None:
        self.workspace = workspace
        self.exercise = exercise
        self.path = workspace.ensure(exercise)
        self._stamp: Stamp | None = None
        """Stamp of the text that was last read; None while the file is too young for a reliable stamp."""
        self._on_disk = ""
        self._unedited = ""
        self._line_end = "\n"
        self.draft = Draft(self.path)

    def read(self) -> str:
        """Return the text on disk, and compare edits with it from now on."""
        stamp = stamp_of(self.path, FileNotFoundError)
        self._on_disk = self.workspace.read(self.exercise)
        self._stamp = _settled(stamp)
        self._line_end = "\r\n" if "\r\n" in self._on_disk else "\n"
        self._unedited = _lines_of(self._on_disk)
        return self._unedited

    def loaded(self, mine: str) -> None:
        """Take the editor's version of the text that was read: it may have other line ends."""
        self._unedited = mine

    def edited(self, mine: str) -> bool:
        return mine != self._unedited

    def save(self, mine: str) -> bool:
        """Write the edits; return False, and leave the file alone, if another program changed it."""
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

    def detect_change(self, mine: str) -> Reloaded | Conflict | Gone | None:
        """Return what another program did to the file since the last call, if anything. Mostly costs one `stat`."""
        if stamp_of(self.path, FileNotFoundError) is None:
            return Gone()
        if not self._changed_by_others(mine):
            return None
        if self.edited(mine):
            return Conflict(_lines_of(self.workspace.read(self.exercise)))
        return Reloaded(self.read())

    def keep_mine(self, mine: str) -> Path | None:
        """End a conflict with the editor's text; return the backup of the file's text, None if there was no file."""
        text = self._as_file(mine)
        backup = self.workspace.write_over_any(self.exercise, text)
        self._saved(mine, text)
        return backup

    def take_theirs(self, mine: str) -> tuple[str, Path]:
        """End a conflict with the file's text; return it, and the backup of the editor's text."""
        # First: without a backup, the conflict remains, and the file must not be overwritten.
        backup = back_up_text(self._as_file(mine), self.path.name, self.workspace.backups)
        text = self.read()
        self.draft.remove()
        return text, backup

    def rescue(self, mine: str) -> None:
        """Save the edits before a sudden end, in the file or as a draft."""
        with contextlib.suppress(TutorError, OSError):  # the draft may be on another disk, or only the file locked
            if self.save(mine):
                return
        self.draft.save(mine)

    def take_abandoned_draft(self) -> str | None:
        """Take over the draft of an app that ended; None if there is none, or it has the file's text."""
        return self.draft.take_abandoned(_lines_of(self._on_disk))

    def _changed_by_others(self, mine: str) -> bool:
        stamp = stamp_of(self.path, FileNotFoundError)
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
        self.draft.remove()

    def _as_file(self, mine: str) -> str:
        return mine if self._line_end == "\n" else mine.replace("\n", self._line_end)


def _lines_of(text: str) -> str:
    return text.replace("\r\n", "\n")


def _settled(stamp: Stamp | None) -> Stamp | None:
    """Return the stamp if it is reliable: any later change gets another stamp."""
    return stamp if stamp is not None and abs(time.time_ns() - stamp[0]) > SETTLED_NS else None

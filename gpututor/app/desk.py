"""The file that the learner has open: saving it, noticing that somebody else changed it, losing nothing. No Textual."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

from gpututor.course.exercise import Exercise
from gpututor.course.workspace import Workspace
from gpututor.errors import TutorError
from gpututor.files import back_up, back_up_text, ordinary, write_atomically
from gpututor.paths import drafts_folder

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


class Desk:
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

    @property
    def backups(self) -> Path:
        return self.workspace.folder / ".backups"

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
        self._write(mine)
        return True

    def look(self, mine: str) -> Reloaded | Conflict | Gone | None:
        """What somebody else did to the file since the last look; costs one stat when nothing."""
        if _stamp(self.path) is None:
            return Gone()
        if not self._changed_by_others(mine):
            return None
        if self.edited(mine):
            return Conflict(_lines_of(self.workspace.read(self.exercise)))
        return Reloaded(self.read())

    def keep_mine(self, mine: str) -> Path | None:
        """End a conflict with the editor's text; returns where the file's text was kept, None where there was none."""
        kept = back_up(self.path, self.backups) if self.path.exists() else None
        self._write(mine)
        return kept

    def take_theirs(self, mine: str) -> tuple[str, Path]:
        """End a conflict with the file's text; returns it, and where the editor's text was kept."""
        # First: where it cannot be kept, the conflict is still there, and the file is nobody's to write over.
        kept = back_up_text(self._as_file(mine), self.path.name, self.backups)
        text = self.read()
        self.forget_draft()
        return text, kept

    def rescue(self, mine: str) -> None:
        """The program is told to end at once: what cannot be saved in its place is kept as a draft."""
        try:
            if self.save(mine):
                return
        except (TutorError, OSError):
            pass  # the draft may be on another disk, or the file be the only one that is locked
        self.keep_draft(mine)

    # Drafts: what was typed and could not be saved in its place

    @property
    def draft_file(self) -> Path:
        import hashlib

        place = hashlib.sha256(os.fsencode(os.path.abspath(self.path))).hexdigest()[:16]
        return drafts_folder() / f"{self.path.stem}.{place}.py"

    def keep_draft(self, mine: str) -> None:
        text = mine.encode("utf-8", errors="replace").decode()  # halves of surrogate pairs may be why it was not saved
        write_atomically(self.draft_file, text)

    def draft(self) -> str | None:
        """What could not be saved the last time, None when there is nothing that the file does not hold."""
        try:
            with open(self.draft_file, encoding="utf-8", newline="", opener=ordinary) as stream:
                text = stream.read()
        except (OSError, UnicodeDecodeError):
            return None
        return text if text != _lines_of(self._on_disk) else None

    def forget_draft(self) -> None:
        with contextlib.suppress(OSError):
            self.draft_file.unlink(missing_ok=True)

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

    def _write(self, mine: str) -> None:
        text = self._as_file(mine)
        self.workspace.write(self.exercise, text)
        self._unedited, self._on_disk = mine, text
        self._stamp = None  # somebody may have written right after us: the next look reads
        self.forget_draft()

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

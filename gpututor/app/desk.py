"""The file that the learner has open: saving it, noticing that somebody else changed it, losing nothing. No Textual."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpututor.course.exercise import Exercise
from gpututor.course.workspace import Workspace
from gpututor.errors import TutorError
from gpututor.files import back_up, back_up_text

Stamp = tuple[int, int, int]
"""Modification time in ns, size in bytes, inode."""


@dataclass(frozen=True)
class Reloaded:
    """The file changed on disk and the learner had no edits: the new text."""

    text: str


@dataclass(frozen=True)
class Conflict:
    """The file changed on disk and in the editor: the text on disk."""

    theirs: str


class Desk:
    """One exercise's file, as it is on disk and as it is in the editor.

    `mine` below is always the editor's text. Every method may raise `WorkspaceError` or `OSError`.
    """

    def __init__(self, workspace: Workspace, exercise: Exercise) -> None:
        self.workspace = workspace
        self.exercise = exercise
        self.path = workspace.ensure(exercise)
        self._stamp: Stamp | None = None
        self._on_disk = ""
        self._unedited = ""

    @property
    def backups(self) -> Path:
        return self.workspace.folder / ".backups"

    def read(self) -> str:
        """The text on disk, which is from now on what edits are compared with."""
        self._stamp = _stamp(self.path)
        self._on_disk = self._unedited = self.workspace.read(self.exercise)
        return self._on_disk

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

    def look(self, mine: str) -> Reloaded | Conflict | None:
        """What somebody else did to the file since the last look; costs one stat when nothing."""
        if not self._changed_by_others(mine):
            return None
        if self.edited(mine):
            return Conflict(self.workspace.read(self.exercise))
        return Reloaded(self.read())

    def keep_mine(self, mine: str) -> Path:
        """End a conflict with the editor's text; returns where the file's text was kept."""
        kept = back_up(self.path, self.backups)
        self._write(mine)
        return kept

    def take_theirs(self, mine: str) -> tuple[str, Path]:
        """End a conflict with the file's text; returns it, and where the editor's text was kept."""
        kept = back_up_text(mine, self.path.name, self.backups)
        return self.read(), kept

    def rescue(self, mine: str) -> None:
        """The program is told to end at once: what cannot be saved in its place is kept among the backups."""
        try:
            if self.save(mine):
                return
        except (TutorError, OSError):
            pass  # the backups may be on another disk, or the file be the only one that is locked
        back_up_text(mine, self.path.name, self.backups)

    def _changed_by_others(self, mine: str) -> bool:
        stamp = _stamp(self.path)
        if stamp is None or stamp == self._stamp:
            return False
        theirs = self.workspace.read(self.exercise)
        if theirs in (self._on_disk, mine):
            self._unedited = mine if theirs == mine else self._unedited
            self._on_disk, self._stamp = theirs, stamp
            return False
        return True

    def _write(self, mine: str) -> None:
        self.workspace.write(self.exercise, mine)
        self._unedited = self._on_disk = mine
        stamp = _stamp(self.path)
        # Somebody may have written right after us: then the next look finds an unknown stamp, and reads.
        self._stamp = stamp if self.workspace.read(self.exercise) == mine else None


def _stamp(path: Path) -> Stamp | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino

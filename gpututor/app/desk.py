"""The file that the learner has open: saving it, noticing that somebody else changed it, losing nothing. No Textual."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path

from gpututor.app.drafts import Draft
from gpututor.course.exercise import Exercise
from gpututor.course.workspace import Workspace
from gpututor.errors import TutorError
from gpututor.files import ChangedMeanwhile, Replaced, back_up_text

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


@dataclass(frozen=True)
class Kept:
    """Another program wrote the file in the moment in which it was saved: where that text is kept."""

    path: Path


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
        self._draft = Draft(self.path)
        self._replaced: dict[Replaced, int] = {}
        """The files that saves took the place of, and when: as long as another program may still write them."""
        self._kept: Path | None = None
        """What another program wrote there, until it is told."""

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
            replaced = self.workspace.write(self.exercise, text, over=self._on_disk)
        except ChangedMeanwhile:
            self._stamp = None
            return False
        self._saved(mine, text, replaced)
        return True

    def look(self, mine: str) -> Reloaded | Conflict | Gone | Kept | None:
        """What somebody else did to the file since the last look; costs one stat when nothing."""
        self._keep_late_text()
        if self._kept is not None:
            kept, self._kept = self._kept, None
            return Kept(kept)
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
        kept, replaced = None, None
        if not self.workspace.write_new(self.exercise, text):
            kept, replaced = self.workspace.write_over_any(self.exercise, text)
        self._saved(mine, text, replaced)
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
        try:
            with contextlib.suppress(TutorError, OSError):  # the draft may be on another disk, or only the file locked
                if self.save(mine):
                    return
            self.keep_draft(mine)
        finally:
            self._keep_last_late_text()

    # Drafts: what was typed and could not be saved in its place

    def keep_draft(self, mine: str) -> None:
        self._draft.keep(mine)

    def draft(self) -> str | None:
        """What an app that ended could not save; None when there is nothing that the file does not hold."""
        return self._draft.take_left(_lines_of(self._on_disk))

    def leave(self) -> None:
        """The file is not open here any more: its draft is for whoever opens it next."""
        self._keep_last_late_text()
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

    def _saved(self, mine: str, text: str, replaced: Replaced | None) -> None:
        self._unedited, self._on_disk = mine, text
        self._stamp = None  # somebody may have written right after us: the next look reads
        self._draft.forget()
        if replaced is not None:
            self._replaced[replaced] = time.monotonic_ns()
        with contextlib.suppress(OSError):  # the edits are saved; the next look tries again, and tells
            self._keep_late_text()

    def _keep_late_text(self) -> None:
        """Keep what was written into the files that saves took the place of."""
        for replaced, since in list(self._replaced.items()):
            self._kept = replaced.back_up_newer(self.path.name, self.workspace.backups) or self._kept
            if time.monotonic_ns() - since > SETTLED_NS:
                del self._replaced[replaced]

    def _keep_last_late_text(self) -> None:
        """As `_keep_late_text`, for the last time: what cannot be kept is in the log."""
        for replaced in self._replaced:
            try:
                replaced.back_up_newer(self.path.name, self.workspace.backups)
            except OSError as error:
                from gpututor.app.log import write_log

                write_log(error)
        self._replaced.clear()

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

"""The part of the main screen that opens an exercise's file and saves it; `sharing` is about changes by others."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from textual import on
from textual.app import ComposeResult

from gpututor.app.commands import Pane
from gpututor.app.desk import Desk
from gpututor.app.messages import EditorLeft
from gpututor.app.screens.stepped import SteppedScreen
from gpututor.app.standing import LessonRow, lesson_rows
from gpututor.app.widgets.lines import KeyLine, StatusLine, TabLine
from gpututor.app.widgets.panes import Panes
from gpututor.course.exercise import Course, Exercise
from gpututor.course.workspace import Workspace
from gpututor.errors import TutorError, WorkspaceError
from gpututor.progress.store import ProgressStore
from gpututor.settings import SettingsFile

BREAKPOINTS = [(0, "-narrow"), (100, "-medium"), (170, "-wide")]
"""From which width on how many panes stand side by side; see `styles/panes.tcss`."""
LOOK_EVERY_S = 0.1
"""How often the file is looked at: what others write there is seen within 200 ms."""
SAVE_AFTER_S = 0.5
"""How long the keys must rest before the file is written."""
SAVE_AT_LATEST_S = 0.8
"""How long after the first edit it is written while they never rest: a letter is on disk within a second."""

Answered = TypeVar("Answered")


@dataclass(frozen=True)
class Learner:
    """What is kept of one learner, and the course that is learnt."""

    course: Course
    workspace: Workspace
    progress: ProgressStore
    settings: SettingsFile


class DeskScreen(SteppedScreen[None]):
    """Panes around one exercise whose file is open."""

    HORIZONTAL_BREAKPOINTS = BREAKPOINTS
    AUTO_FOCUS = ""

    def __init__(self, learner: Learner, exercise: Exercise, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.learner = learner
        self.exercise = exercise
        self.panes = Panes(id="panes")
        self.tabs = TabLine(id="tabs")
        self.status = StatusLine(id="status")
        self.key_line = KeyLine(id="keys-line")
        self._desk: Desk | None = None
        self._clock = clock
        self._first_edit_at: float | None = None
        self._last_edit_at = 0.0
        self._unwritable: str | None = None
        """A text that could not be written, as the learner was told."""
        self._told = ""
        """What a dialog has said about the file, which is not said again by itself."""

    def compose(self) -> ComposeResult:
        # Textual sets this class with the first resize, which would lay everything out twice (15 ms).
        width = self.app.size.width
        self.add_class(next(name for least, name in reversed(BREAKPOINTS) if width >= least), update=False)
        yield self.tabs
        yield self.panes
        yield self.status
        yield self.key_line

    @property
    def lessons(self) -> tuple[LessonRow, ...]:
        return lesson_rows(self.learner.course, self.from_progress(self.learner.progress.summary, {}))

    @property
    def editor_text(self) -> str:
        return self.panes.editor.text if self.panes.has_editor else ""

    # Opening

    def load_file(self) -> bool:
        """Put the exercise's file in the editor; False, with a dialog, when it cannot be read."""
        self.leave_desk()
        try:
            desk = Desk(self.learner.workspace, self.exercise)
            self.panes.editor.show(desk.read())
        except (TutorError, OSError) as error:
            self.panes.editor.show("")
            self.panes.editor.read_only = True
            self.show_error(error)
            return False
        desk.loaded(self.editor_text)
        self._desk = desk
        self._first_edit_at = self._unwritable = None
        self._told = ""
        self.panes.editor.read_only = False
        self.panes.editor.border_title = f"Code  {desk.path.name}"
        return True

    def leave_desk(self) -> None:
        """From now on no file is open."""
        if self._desk is not None:
            self._desk.leave()
        self._desk = None

    def on_unmount(self) -> None:
        self.leave_desk()

    # Saving

    def on_text_area_changed(self) -> None:
        if self._desk is None or not self._desk.edited(self.editor_text):
            self._first_edit_at = None
        else:
            self._last_edit_at = self._clock()
            if self._first_edit_at is None:
                self._first_edit_at = self._last_edit_at
                self.status.show_news("")
        self.show_standing()

    @on(EditorLeft)
    def _save_on_leaving(self) -> None:
        self.save()

    def on_screen_suspend(self) -> None:
        self.save()

    def save(self) -> bool:
        """Write the edits by itself; False when they are not on disk: asked about, or told in a dialog."""
        if self._desk is None or self.editor_text == self._unwritable:
            return False
        if self.is_saved:
            return True  # a file that is gone is written anew when the learner edits or asks, not by leaving the editor
        try:
            return self.write_edits()
        except (TutorError, OSError) as error:
            self.cannot_save(error)
            return False

    def write_edits(self) -> bool:
        """Write the edits; False when somebody else changed the file, which is then left alone. May raise."""
        assert self._desk is not None
        edited = self._desk.edited(self.editor_text)
        saved = self._desk.save(self.editor_text)
        self._first_edit_at = None
        if saved and edited:
            self._told = ""
        elif not saved:
            self._desk.keep_draft(self.editor_text)
        self.show_standing()
        return saved

    def cannot_save(self, error: TutorError | OSError) -> None:
        """Keep the text in another place; tried again with the next edit or command, told once."""
        self._unwritable = self.editor_text
        self._first_edit_at = None
        self.keep_draft()
        self.tell_of_file(error)
        self.show_standing()

    def keep_draft(self) -> bool:
        """Keep what cannot be saved in its place; whether that went well."""
        try:
            if self._desk is not None:
                self._desk.keep_draft(self.editor_text)
        except OSError:
            return False
        return True

    def rescue(self) -> None:
        """Save what there is, without asking anything."""
        if self._desk is not None and self._desk.edited(self.editor_text):
            self._desk.rescue(self.editor_text)

    @property
    def has_file(self) -> bool:
        """Whether a file is open."""
        return self._desk is not None

    @property
    def is_saved(self) -> bool:
        return self._desk is not None and not self._desk.edited(self.editor_text)

    # Saying

    def from_progress(self, ask: Callable[[], Answered], otherwise: Answered) -> Answered:
        """What progress says; where it cannot be read or written, that is told and learning goes on."""
        try:
            return ask()
        except TutorError as error:
            self.status.show_news(error.title)
            return otherwise

    def show_error(self, error: TutorError | OSError) -> None:
        from gpututor.app.screens.dialogs import error_dialog

        self.app.push_screen(error_dialog(in_words(error)))

    def tell_of_file(self, error: TutorError | OSError) -> None:
        """Say in a dialog what is wrong with the file, and the same not again while the learner types on."""
        error = in_words(error)
        if error.title != self._told:
            self._told = error.title
            self.show_error(error)

    def show_standing(self) -> None:
        """How file and device stand; the layers above know the device."""

    def show_keys(self) -> None:
        """Which commands can do something now; the layers above know them."""

    def show_pane(self, pane: Pane) -> None:
        """Bring a pane to the front; the layers above know what it shows."""


def in_words(error: TutorError | OSError) -> TutorError:
    if isinstance(error, TutorError):
        return error
    return WorkspaceError(f"The file cannot be used: {error}", "Look at its folder, then try again.")

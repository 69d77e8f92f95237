"""The part of the main screen that opens an exercise and keeps the learner's file safe."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from textual import events, on
from textual.app import ComposeResult
from textual.screen import Screen
from textual.widgets import TextArea

from gpututor.app.commands import Pane
from gpututor.app.desk import Conflict, Desk, Reloaded
from gpututor.app.messages import EditorLeft
from gpututor.app.screens.dialogs import Answer, DiffDialog, QuestionDialog, error_dialog
from gpututor.app.standing import LessonRow, lesson_rows
from gpututor.app.widgets.lines import KeyLine, StatusLine, TabLine
from gpututor.app.widgets.panes import Panes
from gpututor.course.exercise import Course, Exercise
from gpututor.course.workspace import Workspace
from gpututor.errors import TutorError, WorkspaceError
from gpututor.progress.store import ProgressStore

BREAKPOINTS = [(0, "-narrow"), (100, "-medium"), (140, "-wide")]
"""From which width on how many panes stand side by side; see `styles/panes.tcss`."""
LOOK_EVERY_S = 0.15
SAVE_AFTER_S = 0.5
"""How long the keys must rest before the file is written; while they never rest it is written every second."""
SAVE_AT_LATEST_S = 1.0

Answered = TypeVar("Answered")


@dataclass(frozen=True)
class Learner:
    """What is kept of one learner, and the course that is learnt."""

    course: Course
    workspace: Workspace
    progress: ProgressStore


class DeskScreen(Screen[None]):
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
        self._asking = False
        self._unwritable: str | None = None
        """A text that could not be written, as the learner was told."""
        self._put_off: str | None = None
        """A file's text in a conflict that the learner did not want to decide yet."""

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
        return self.panes.editor.text

    # Opening

    def load_file(self) -> bool:
        """Put the exercise's file in the editor; False, with a dialog, when it cannot be read."""
        try:
            desk = Desk(self.learner.workspace, self.exercise)
            self.panes.editor.show(desk.read())
        except (TutorError, OSError) as error:
            self._desk = None
            self.panes.editor.show("")
            self.panes.editor.read_only = True
            self.show_error(error)
            return False
        desk.loaded(self.editor_text)
        self._desk = desk
        self._first_edit_at = self._put_off = None
        self.panes.editor.read_only = False
        self.panes.editor.border_title = f"Code  {desk.path.name}"
        return True

    # Saving

    @on(TextArea.Changed)
    def _count_edit(self) -> None:
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
        """Write the edits; False when they are not on disk: asked about, or told in a dialog."""
        if self._desk is None or self.editor_text == self._unwritable:
            return False
        try:
            saved = self._desk.save(self.editor_text)
        except (TutorError, OSError) as error:
            # Tried again with the next edit or command: a dialog at every tick would lock the learner out.
            self._unwritable = self.editor_text
            self._first_edit_at = None
            self.show_error(error)
            return False
        if saved:
            self._first_edit_at = None
            self.show_standing()
        return saved

    def save_or_ask(self) -> bool:
        """Save before something that needs the file: False when the learner has to answer first."""
        if self._desk is None:
            return False
        self._unwritable = self._put_off = None
        self._look()
        return not self._asking and self.save()

    def rescue(self) -> None:
        """Save what there is, without asking anything."""
        if self._desk is not None and self._desk.edited(self.editor_text):
            self._desk.rescue(self.editor_text)

    @property
    def is_saved(self) -> bool:
        return self._desk is not None and not self._desk.edited(self.editor_text)

    def tick(self) -> None:
        """Look at the file, and save edits that have rested."""
        if self._asking or self._desk is None or not self.is_current:
            return
        self._look()
        if self._asking or self._first_edit_at is None:
            return
        now = self._clock()
        if now - self._last_edit_at >= SAVE_AFTER_S or now - self._first_edit_at >= SAVE_AT_LATEST_S:
            self.save()

    # Changes by others

    def _look(self) -> None:
        assert self._desk is not None
        try:
            change = self._desk.look(self.editor_text)
        except (TutorError, OSError) as error:
            self.status.show_news(f"The file cannot be read: {error}".splitlines()[0])
            return
        match change:
            case Reloaded(text):
                self._take(text)
                self.status.show_news("Reloaded: another program changed the file.")
            case Conflict(theirs) if theirs != self._put_off:
                self._ask_about(theirs)
            case _:
                return

    def _take(self, text: str) -> None:
        """Show a newer text of the same file; undo brings the older one back."""
        assert self._desk is not None
        self.panes.editor.replace_all(text)
        self._desk.loaded(self.editor_text)
        self._first_edit_at = None
        self.show_standing()

    def _ask_about(self, theirs: str) -> None:
        self._asking = True
        question = QuestionDialog(
            "The file changed on disk and in the editor",
            "Another program changed it while you had edits here. Whichever you do not take is kept in .backups.\n\n"
            "Esc leaves it for later; until then nothing is saved.",
            (
                Answer("mine", "m", "Keep mine"),
                Answer("theirs", "f", "Take the file's"),
                Answer("diff", "d", "See a diff"),
            ),
            escape="later",
        )
        self.app.push_screen(question, lambda answer: self._end_conflict(answer or "later", theirs))

    def _end_conflict(self, answer: str, theirs: str) -> None:
        assert self._desk is not None
        if answer == "diff":
            legend = ("only in your editor", "only in the file")
            diff = DiffDialog("Your editor and the file", self.editor_text, theirs, legend)
            self.app.push_screen(diff, lambda _: self._ask_about(theirs))
            return
        self._asking = False
        if answer == "later":
            self._put_off = theirs
            self.status.show_news("Not saved: the file changed on disk too. ^s asks again.")
            return
        try:
            if answer == "mine":
                kept = self._desk.keep_mine(self.editor_text)
                self._first_edit_at = None
            else:
                text, kept = self._desk.take_theirs(self.editor_text)
                self._take(text)
        except (TutorError, OSError) as error:
            self.show_error(error)
            return
        self.status.show_news(f"Kept: .backups/{kept.name}")
        self.show_standing()

    # Saying

    def from_progress(self, ask: Callable[[], Answered], otherwise: Answered) -> Answered:
        """What progress says; where it cannot be read or written, that is told and learning goes on."""
        try:
            return ask()
        except TutorError as error:
            self.status.show_news(error.title)
            return otherwise

    def show_error(self, error: TutorError | OSError) -> None:
        if not isinstance(error, TutorError):
            error = WorkspaceError(f"The file cannot be used: {error}", "Look at its folder, then try again.")
        self.app.push_screen(error_dialog(error))

    def show_standing(self) -> None:
        """How file and device stand; the layers above know the device."""

    def show_keys(self) -> None:
        """Which commands can do something now; the layers above know them."""

    def show_pane(self, pane: Pane) -> None:
        """Bring a pane to the front; the layers above know what it shows."""

    @on(events.ScreenResume)
    def _look_at_once(self) -> None:
        self.tick()

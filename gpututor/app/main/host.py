"""Contract between the main screen and its controllers: the learner's context, and the screen's services."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from textual.message import Message
from textual.screen import Screen, ScreenResultCallbackType

from gpututor.app.commands import Pane
from gpututor.app.main.panes import Panes
from gpututor.app.widgets.bars import StatusBar, TabBar
from gpututor.course.model import Course, Exercise
from gpututor.course.workspace import Workspace
from gpututor.errors import TutorError
from gpututor.grading.client import GradingService
from gpututor.progress.store import ProgressStore
from gpututor.settings import SettingsFile

Result = TypeVar("Result")


@dataclass(frozen=True)
class LearnerContext:
    """The course, and all that is stored for one learner."""

    course: Course
    workspace: Workspace
    progress: ProgressStore
    settings: SettingsFile


class Host(Protocol):
    """The main screen, as its controllers see it."""

    learner: LearnerContext
    exercise: Exercise
    """The open exercise."""
    panes: Panes
    status: StatusBar
    tabs: TabBar
    client: GradingService

    @property
    def editor_text(self) -> str: ...
    @property
    def running(self) -> bool:
        """True while the checks run."""
        ...

    @property
    def planned_device(self) -> str:
        """Name of the device of the next run."""
        ...

    @property
    def takes_letters(self) -> bool:
        """True if letters are no commands of the app: they are text, or Vim's commands."""
        ...

    @property
    def is_in_editor(self) -> bool:
        """True if the editor has the focus."""
        ...

    @property
    def is_current(self) -> bool: ...
    @property
    def is_active(self) -> bool: ...
    def push(self, screen: Screen[Result], callback: ScreenResultCallbackType[Result] | None = None) -> object: ...
    def post_message(self, message: Message) -> bool: ...
    def call_after_refresh(self, callback: Callable[..., Any], *args: Any, **kwargs: Any) -> bool: ...
    def call_later(self, callback: Callable[..., Any], *args: Any, **kwargs: Any) -> bool:
        """Call a function in the screen's turn. Threads may use it."""
        ...

    def start_run(self) -> None: ...
    def check_disk(self) -> None:
        """Read what changed in the settings and in the file."""

    def apply_settings(self) -> None: ...

    def key_of(self, command: str) -> str:
        """Return the name of a command's first key that works everywhere."""
        ...

    def letter_of(self, command: str) -> str:
        """Return the name of a command's first key outside the editor."""
        ...

    def key_now(self, command: str) -> str:
        """Return the name of a key that runs the command now: no letter while `takes_letters`."""
        ...

    def file_loaded(self, *, again: bool = False) -> None:
        """Update what depends on the file's text; `again`: another program changed the text of the open file."""

    def lesson_finished(self, slug: str) -> None:
        """Celebrate a lesson whose last exercise was just passed."""

    def show_error(self, error: TutorError | OSError) -> None: ...
    def show_pane(self, pane: Pane) -> None: ...
    def show_glossary(self, anchor: str = "") -> None:
        """Show the glossary, at the word of a link's anchor."""

    def show_documentation_of(self, name: str) -> None: ...
    def show_lists(self) -> None: ...
    def show_file_state(self) -> None: ...
    def show_bars(self) -> None: ...
    def show_keys(self) -> None: ...

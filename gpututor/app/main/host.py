"""The contract between the main screen and its controllers: the learner's context, and what all may ask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from textual.message import Message
from textual.screen import Screen, ScreenResultCallbackType

from gpututor.app.commands import Pane
from gpututor.app.main.panes import Panes
from gpututor.app.widgets.bars import StatusBar
from gpututor.course.model import Course, Exercise
from gpututor.course.workspace import Workspace
from gpututor.errors import TutorError
from gpututor.progress.overview import LessonRow
from gpututor.progress.store import ProgressStore
from gpututor.settings import SettingsFile

Answer = TypeVar("Answer")
Result = TypeVar("Result")


@dataclass(frozen=True)
class LearnerContext:
    """The course, and all that is stored for one learner."""

    course: Course
    workspace: Workspace
    progress: ProgressStore
    settings: SettingsFile


class Host(Protocol):
    """A screen with panes, as every controller sees it."""

    @property
    def learner(self) -> LearnerContext: ...

    @property
    def exercise(self) -> Exercise:
        """The open exercise."""
        ...

    @property
    def lessons(self) -> tuple[LessonRow, ...]:
        """All lessons with the state of their exercises."""
        ...

    @property
    def panes(self) -> Panes: ...

    @property
    def status(self) -> StatusBar: ...

    @property
    def editor_text(self) -> str: ...

    @property
    def running(self) -> bool:
        """True while the checks run."""
        ...

    def push(self, screen: Screen[Result], callback: ScreenResultCallbackType[Result] | None = None) -> object: ...

    def post_message(self, message: Message) -> bool: ...

    def call_after_refresh(self, callback: Callable[..., Any], *args: Any, **kwargs: Any) -> bool: ...

    def call_later(self, callback: Callable[..., Any], *args: Any, **kwargs: Any) -> bool: ...

    def show_error(self, error: TutorError | OSError) -> None: ...

    def from_progress(self, ask: Callable[[], Answer], otherwise: Answer) -> Answer:
        """Ask the progress file; report an error in the status bar and return `otherwise`."""
        ...

    def show_pane(self, pane: Pane) -> None: ...

    def show_lists(self) -> None: ...

    def show_standing(self) -> None: ...

    def show_keys(self) -> None: ...

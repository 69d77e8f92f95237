"""The learner's app, its palette, and what it rescues when it crashes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text
from textual import events
from textual.screen import Screen

from gpututor.app import runtime
from gpututor.app.base import BaseApp
from gpututor.app.main.host import LearnerContext
from gpututor.app.main.screen import MainScreen
from gpututor.app.runtime import GcScheduler, write_log
from gpututor.app.textual_private import error_of
from gpututor.course.model import Course, Exercise
from gpututor.course.workspace import Workspace, make_workspace
from gpututor.errors import TutorError
from gpututor.paths import default_workspace, log_file
from gpututor.progress.database import briefly
from gpututor.progress.store import ProgressStore
from gpututor.settings import SettingsFile

if TYPE_CHECKING:
    from gpututor.app.screens.palette import Entry
    from gpututor.grading.client import GradingService
    from gpututor.hardware.inventory import Inventory


class GpututorApp(BaseApp):
    """A terminal trainer. Everything that it works on is handed in."""

    TITLE = "gpututor"

    def __init__(
        self,
        *,
        course: Course,
        workspace: Workspace | None,
        progress: ProgressStore,
        client: GradingService,
        new_workspace: Path | None = None,
        find_devices: Callable[[], Inventory] | None = None,
        settings: SettingsFile | None = None,
        collector: GcScheduler | None = None,
    ) -> None:
        """`workspace` None: there is none yet, and the welcome offers to make one in `new_workspace`.

        `find_devices` is called in a thread after the first paint. `collector`: for a process of the app's own.
        """
        super().__init__(client=client, settings=settings, collector=collector)
        self._course = course
        self._workspace = workspace
        self._progress = progress
        progress.patience = briefly  # it is read where keys are answered; the main screen's writer writes
        self._new_workspace = new_workspace or default_workspace(course.place)
        self._remembers = new_workspace is None
        """Whether a workspace that is made here is used from then on where none is named."""
        self._find_devices = find_devices

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, (events.Key, events.MouseDown)) and not event.is_forwarded:
            for desk in self._desks:
                desk.status.forget_answer()
        await super().on_event(event)

    def leave_at_once(self) -> None:
        """As before, and nothing may be lost."""
        for desk in self._desks:
            desk.files.rescue()
        super().leave_at_once()

    @property
    def _desks(self) -> list[MainScreen]:
        return [screen for screen in self.screen_stack if isinstance(screen, MainScreen)]

    def _fatal_error(self) -> None:
        """A fault of ours that nobody foresaw: what is open is saved, and the log has what Textual would print."""

        self.bell()
        self.panic(crash_message(sys.exc_info()[1] or error_of(self), self._desks))

    def palette_entries(self, screen: Screen[Any], query: str) -> Iterator[Entry]:
        from gpututor.app.palette import learner_entries  # with the first use of the palette

        return learner_entries(screen)

    def get_default_screen(self) -> Screen[Any]:
        return self._welcome() if self._workspace is None else self._main(self._workspace)

    def _main(self, workspace: Workspace) -> MainScreen:
        learner = LearnerContext(self._course, workspace, self._progress, self.settings)
        return MainScreen(learner, self._first_exercise(), self._client, find_devices=self._find_devices)

    def _first_exercise(self) -> Exercise:
        """Where the learner left off, or the beginning."""
        current = self._progress.current_exercise()
        exercises = self._course.exercises
        return next((exercise for exercise in exercises if exercise.key == current), exercises[0])

    def _welcome(self) -> Screen[Any]:
        from gpututor.app.screens.welcome import WelcomeScreen

        runtime.read_later(self.stylesheet)
        first = self._first_exercise()
        return WelcomeScreen(
            self._new_workspace, len(self._course.lessons), len(self._course.exercises), f"{first.label} {first.title}"
        )

    def action_begin(self) -> None:
        """Make the learner's folder and go to the first exercise. A folder that cannot be made is told in a dialog."""
        if self._desks:
            return  # Enter came twice in one moment
        try:
            self._workspace, _ = make_workspace(self._new_workspace, self._course, remember=self._remembers)
        except TutorError as error:
            self.show_error(error)
            return
        self.push_screen(self._main(self._workspace))

    async def action_quit(self) -> None:
        """Leave, from wherever: what is open is saved first, and may ask."""
        for desk in self._desks:
            await desk.caught_up()
            desk.leave()
            return
        self.exit()


def crash_message(error: BaseException | None, desks: Sequence[MainScreen]) -> Text:
    """Write the log, save what is open on `desks`, and say what became of it."""
    if error is not None:
        write_log(error)
    return Text(
        f"gpututor stopped in an unexpected way: {error!r}\n"
        f"{_rescued(desks)} Start gpututor again to go on. The log is {log_file()}"
    )


def _rescued(desks: Sequence[MainScreen]) -> str:
    """Save what is open, whatever else is broken; what became of it."""
    try:
        for desk in desks:
            desk.files.rescue()
    except Exception as error:
        write_log(error)
        return "Your last edits could not be kept."
    with_file = [desk for desk in desks if desk.files.is_open]
    if not with_file:
        return "No file was open."
    if all(desk.files.is_saved for desk in with_file):
        return "Your file is saved."
    return "Your last edits are kept apart, and are offered when you open the exercise again."

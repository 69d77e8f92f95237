"""The app itself: which screen comes first, and what all screens share."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events
from textual.screen import Screen

from gpututor.app import style_sheets
from gpututor.app.base import BaseApp
from gpututor.app.grader import Client
from gpututor.app.idle import IdleCollector
from gpututor.app.main.saving import Learner
from gpututor.app.main.screen import MainScreen
from gpututor.course.exercise import Course, Exercise
from gpututor.course.workspace import Workspace, make_workspace
from gpututor.errors import TutorError
from gpututor.paths import default_workspace
from gpututor.progress.database import briefly
from gpututor.progress.store import ProgressStore
from gpututor.settings import SettingsFile

if TYPE_CHECKING:
    from textual.command import Provider

    from gpututor.grading.inventory import Inventory


def palette_provider() -> type[Provider]:
    """What fills the palette; imported when it is first opened."""
    from gpututor.app.palette import Everything

    return Everything


class GpututorApp(BaseApp):
    """A terminal trainer. Everything that it works on is handed in."""

    TITLE = "gpututor"
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {palette_provider}

    def __init__(
        self,
        *,
        course: Course,
        workspace: Workspace | None,
        progress: ProgressStore,
        client: Client,
        new_workspace: Path | None = None,
        find_devices: Callable[[], Inventory] | None = None,
        settings: SettingsFile | None = None,
        collector: IdleCollector | None = None,
    ) -> None:
        """`workspace` None: there is none yet, and the welcome offers to make one in `new_workspace`.

        `find_devices` is called in a thread after the first paint. `collector`: for a process of the app's own.
        """
        super().__init__(client=client, settings=settings, collector=collector)
        self._course = course
        self._workspace = workspace
        self._progress = progress
        progress.patience = briefly  # it is read where keys are answered; what writes is the main screen's keeper
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
            desk.rescue()
        super().leave_at_once()

    @property
    def _desks(self) -> list[MainScreen]:
        return [screen for screen in self.screen_stack if isinstance(screen, MainScreen)]

    def _fatal_error(self) -> None:
        """A fault of ours that nobody foresaw: what is open is saved, and the log has what Textual would print."""
        from gpututor.app.last_words import last_words

        self.bell()
        self.panic(last_words(sys.exc_info()[1] or self._exception, self._desks))

    def get_default_screen(self) -> Screen[Any]:
        return self._welcome() if self._workspace is None else self._main(self._workspace)

    def _main(self, workspace: Workspace) -> MainScreen:
        learner = Learner(self._course, workspace, self._progress, self.settings)
        return MainScreen(learner, self._first_exercise(), self._client, find_devices=self._find_devices)

    def _first_exercise(self) -> Exercise:
        """Where the learner left off, or the beginning."""
        current = self._progress.current_exercise()
        exercises = self._course.exercises
        return next((exercise for exercise in exercises if exercise.key == current), exercises[0])

    def _welcome(self) -> Screen[Any]:
        from gpututor.app.screens.welcome import WelcomeScreen

        style_sheets.read_later(self.stylesheet)
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
            desk.action_quit()
            return
        self.exit()

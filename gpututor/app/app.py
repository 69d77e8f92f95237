"""The app itself: which screen comes first, and what all screens share."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import App, SystemCommand
from textual.binding import BindingType
from textual.screen import Screen
from textual.theme import Theme

from gpututor.app.commands import COMMANDS, Pane
from gpututor.app.grader import Client
from gpututor.app.main.saving import Learner
from gpututor.app.main.screen import MainScreen
from gpututor.app.screens.dialogs import error_dialog
from gpututor.course.exercise import Course, Exercise
from gpututor.course.workspace import Workspace, make_workspace
from gpututor.errors import CourseError, TutorError, UsageError
from gpututor.paths import builtin_course, default_workspace, progress_file
from gpututor.progress.store import ProgressStore

if TYPE_CHECKING:
    from gpututor.grading.inventory import Inventory

STYLES = ("panes", "course", "reader", "editor", "results", "dialogs", "welcome")
"""The style sheets, one a room; later ones win."""

NIGHT = Theme(
    name="gpututor",
    primary="#6ea8dc",
    secondary="#8f9fd8",
    accent="#7fc4b3",
    success="#84b870",
    warning="#d9b06a",
    error="#dd7d7d",
    foreground="#d6dae0",
    background="#14171c",
    surface="#1b1f26",
    panel="#20252d",
    dark=True,
)


class GpututorApp(App[None]):
    """A terminal trainer. Everything that it works on is handed in."""

    CSS_PATH: ClassVar[list[str | PurePath]] = [f"styles/{name}.tcss" for name in STYLES]
    TITLE = "gpututor"
    ENABLE_COMMAND_PALETTE = True
    BINDINGS: ClassVar[list[BindingType]] = []

    def __init__(
        self,
        *,
        course: Course,
        workspace: Workspace | None,
        progress: ProgressStore,
        client: Client,
        new_workspace: Path | None = None,
        find_devices: Callable[[], Inventory] | None = None,
    ) -> None:
        """`workspace` None: there is none yet, and the welcome offers to make one in `new_workspace`.

        `find_devices` is called in a thread after the first paint.
        """
        super().__init__()
        self.register_theme(NIGHT)
        self.theme = NIGHT.name
        self._course = course
        self._workspace = workspace
        self._progress = progress
        self._client = client
        self._new_workspace = new_workspace or default_workspace()
        self._find_devices = find_devices

    def on_mount(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._leave_at_once)

    def _leave_at_once(self) -> None:
        """The terminal was closed, or the program told to end: nobody can be asked, and nothing may be lost."""
        for screen in self.screen_stack:
            if isinstance(screen, MainScreen):
                screen.rescue()
        self._client.cancel()
        self.exit()

    def get_default_screen(self) -> Screen[Any]:
        return self._welcome() if self._workspace is None else self._main(self._workspace)

    def _main(self, workspace: Workspace) -> MainScreen:
        learner = Learner(self._course, workspace, self._progress)
        return MainScreen(learner, self._first_exercise(), self._client, find_devices=self._find_devices)

    def _first_exercise(self) -> Exercise:
        """Where the learner left off, or the beginning."""
        current = self._progress.current_exercise()
        exercises = self._course.exercises
        return next((exercise for exercise in exercises if exercise.key == current), exercises[0])

    def _welcome(self) -> Screen[Any]:
        from gpututor.app.screens.welcome import WelcomeScreen

        first = self._first_exercise()
        return WelcomeScreen(
            self._new_workspace, len(self._course.lessons), len(self._course.exercises), f"{first.label} {first.title}"
        )

    def action_begin(self) -> None:
        """Make the learner's folder and go to the first exercise. A folder that cannot be made is told in a dialog."""
        try:
            self._workspace, _ = make_workspace(self._new_workspace, self._course)
        except TutorError as error:
            self.push_screen(error_dialog(error))
            return
        self.push_screen(self._main(self._workspace))

    async def action_quit(self) -> None:
        """Leave, from wherever: what is open is saved first, and may ask."""
        for screen in self.screen_stack:
            if isinstance(screen, MainScreen):
                await screen.caught_up()
                screen.action_quit()
                return
        self.exit()

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """The palette: every command, every exercise, the theme."""
        if not isinstance(screen, MainScreen):
            return
        for command in COMMANDS:
            yield SystemCommand(command.title, command.help, getattr(screen, f"action_{command.id}"))
        for exercise in self._course.exercises:
            title = f"{exercise.label} {exercise.title}"
            yield SystemCommand(title, exercise.summary, partial(screen.open_exercise, exercise, Pane.TASK))
        yield SystemCommand("Theme", "Choose other colours.", self.action_change_theme)


def run(course_folder: Path | None = None, workspace_folder: Path | None = None) -> int:
    """Start the app and return the exit status. Raises `TutorError` for what keeps it from starting."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "The app needs a terminal, and this is none.",
            "Without one there are plain verbs, such as `gpututor list` and `gpututor grade EXERCISE`.",
        )
    from gpututor.course.catalogue import load_course
    from gpututor.course.workspace import find_workspace
    from gpututor.grading.client import GradingClient
    from gpututor.grading.inventory import known_devices

    course = load_course(course_folder or builtin_course())
    if not course.exercises:
        raise CourseError(f"{course.folder}: there is no exercise in it", "`gpututor doctor` names what is wrong.")
    progress = ProgressStore(progress_file())
    client = GradingClient()
    try:
        GpututorApp(
            course=course,
            workspace=find_workspace(workspace_folder),
            progress=progress,
            client=client,
            new_workspace=workspace_folder,
            find_devices=known_devices,
        ).run()
    finally:
        client.close()
        progress.close()
    return 0

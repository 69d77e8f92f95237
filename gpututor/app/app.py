"""The app itself: which screen comes first, and what all screens share."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events, on
from textual.app import App
from textual.binding import BindingType
from textual.filter import LineFilter
from textual.screen import Screen
from textual.theme import Theme

from gpututor.app import style_sheets, themes
from gpututor.app.chosen import ChosenReversed
from gpututor.app.escape import escape_took
from gpututor.app.grader import Client
from gpututor.app.idle import LOOK_EVERY_S, START_AFTER_S, IdleCollector
from gpututor.app.main.saving import Learner
from gpututor.app.main.screen import MainScreen
from gpututor.app.messages import SettingsChanged
from gpututor.app.without_colours import WithoutColours
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

_WITHOUT_COLOURS = (WithoutColours(),)
_SIXTEEN_COLOURS = (ChosenReversed(),)


def palette_provider() -> type[Provider]:
    """What fills the palette; imported when it is first opened."""
    from gpututor.app.palette import Everything

    return Everything


class GpututorApp(App[None]):
    """A terminal trainer. Everything that it works on is handed in."""

    CSS_PATH: ClassVar[list[str | PurePath]] = [style_sheets.path_of(name) for name in style_sheets.FIRST]
    TITLE = "gpututor"
    ENABLE_COMMAND_PALETTE = True
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {palette_provider}
    BINDINGS: ClassVar[list[BindingType]] = []
    no_color = False

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
        super().__init__()
        self.settings = settings or SettingsFile()
        for theme in themes.OWN:
            self.register_theme(theme)
        self.settings.know_themes(self.available_themes)
        self._full_motion = self.animation_level
        self._is_still = False
        self._applied_theme = ""
        self.apply_settings()
        self._course = course
        self._workspace = workspace
        self._progress = progress
        progress.patience = briefly  # it is read where keys are answered; what writes is the main screen's keeper
        self._client = client
        self._new_workspace = new_workspace or default_workspace(course.place)
        self._remembers = new_workspace is None
        """Whether a workspace that is made here is used from then on where none is named."""
        self._find_devices = find_devices
        self._collector = collector

    def apply_settings(self) -> None:
        """Let the chosen colours and motion hold from now on."""
        chosen = self.settings.now
        theme = self.get_theme(chosen.theme) or themes.NIGHT
        self._applied_theme = self.theme = theme.name
        if (chosen.motion == "none") is not self._is_still:
            self._is_still = not self._is_still
            self.animation_level = "none" if self._is_still else self._full_motion

    @property
    def current_theme(self) -> Theme:
        """The chosen one; without colours, that which has none."""
        return themes.WITHOUT_COLOURS if self.no_color else super().current_theme

    def get_line_filters(self) -> Sequence[LineFilter]:
        """What changes the styles of all that is drawn."""
        if self.no_color:
            return _WITHOUT_COLOURS
        return _SIXTEEN_COLOURS if self.native_ansi_color else super().get_line_filters()

    @on(SettingsChanged)
    def _take_settings(self) -> None:
        self.apply_settings()

    def _remember_theme(self, theme: Theme) -> None:
        """The palette chose other colours."""
        if theme.name == self._applied_theme:
            return
        self._applied_theme = theme.name
        try:
            self.settings.choose("theme", theme.name)
        except TutorError as error:
            self._show_error(error)

    def on_mount(self) -> None:
        self.theme_changed_signal.subscribe(self, self._remember_theme)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._leave_at_once)

    def refresh_css(self, animate: bool = True) -> None:
        if self.screen_stack:
            super().refresh_css(animate)
        else:
            # Before there is a screen, the style sheets need not be read a second time (10 ms).
            self.stylesheet.set_variables(self.get_css_variables())
            self.stylesheet.update(self, animate=animate)

    def on_ready(self) -> None:
        if self._collector is not None:
            self.set_timer(START_AFTER_S, self._collector.start)
            self.set_interval(LOOK_EVERY_S, self._collector.look)

    async def on_event(self, event: events.Event) -> None:
        if self._collector is not None and isinstance(event, events.InputEvent):
            self._collector.input_came()
        if isinstance(event, (events.Key, events.MouseDown)) and not event.is_forwarded:
            for desk in self._desks:
                desk.status.forget_answer()
        if not isinstance(event, events.Key) or not await escape_took(self, event):
            await super().on_event(event)

    def _leave_at_once(self) -> None:
        """The terminal was closed, or the program told to end: nobody can be asked, and nothing may be lost."""
        self._rescue()
        self._client.cancel()
        self.exit()

    def _rescue(self) -> None:
        for desk in self._desks:
            desk.rescue()

    @property
    def _desks(self) -> list[MainScreen]:
        return [screen for screen in self.screen_stack if isinstance(screen, MainScreen)]

    def _fatal_error(self) -> None:
        """A fault of ours that nobody foresaw: what is open is saved, and the log has what Textual would print."""
        from gpututor.app.last_words import last_words

        self.bell()
        self.panic(last_words(sys.exc_info()[1] or self._exception, self._desks))

    def _show_error(self, error: TutorError) -> None:
        from gpututor.app.screens.dialogs import error_dialog

        self.push_screen(error_dialog(error))

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
            self._show_error(error)
            return
        self.push_screen(self._main(self._workspace))

    async def action_quit(self) -> None:
        """Leave, from wherever: what is open is saved first, and may ask."""
        for desk in self._desks:
            await desk.caught_up()
            desk.action_quit()
            return
        self.exit()

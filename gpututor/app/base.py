"""Base of all apps of gpututor: colors, settings, keys, leaving."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual import events, on
from textual.app import App
from textual.binding import BindingType
from textual.driver import Driver
from textual.filter import LineFilter
from textual.theme import Theme

from gpututor.app import runtime, themes
from gpututor.app.escape_key import handle_escape, quick_driver
from gpututor.app.messages import SettingsChanged
from gpututor.app.runtime import CHECK_EVERY_S, START_AFTER_S, GcScheduler
from gpututor.errors import TutorError
from gpututor.paths import log_file
from gpututor.settings import SettingsFile

if TYPE_CHECKING:
    from textual.screen import Screen

    from gpututor.app.screens.palette import PaletteEntry
    from gpututor.grading.client import GradingService


class BaseApp(App[None]):
    """App with the theme and the motion of the settings."""

    CSS_PATH: ClassVar[list[str | PurePath]] = [runtime.path_of(name) for name in runtime.FIRST]
    ENABLE_COMMAND_PALETTE = True
    BINDINGS: ClassVar[list[BindingType]] = []
    no_color = False

    def __init__(
        self, *, client: GradingService, settings: SettingsFile | None = None, collector: GcScheduler | None = None
    ) -> None:
        """`collector`: None if other apps share the process."""
        super().__init__()
        self.settings = settings or SettingsFile()
        for theme in themes.OWN:
            self.register_theme(theme)
        self.settings.accept_themes(theme.name for theme in themes.offered(self.available_themes))
        self._full_motion = self.animation_level
        self._is_still = False
        self._applied_theme = ""
        self.apply_settings()
        self._client = client
        self._collector = collector

    def apply_settings(self) -> None:
        settings = self.settings.now
        theme = self.get_theme(settings.theme) or themes.NIGHT
        self._applied_theme = self.theme = theme.name
        if (settings.motion == "none") is not self._is_still:
            self._is_still = not self._is_still
            self.animation_level = "none" if self._is_still else self._full_motion

    @property
    def current_theme(self) -> Theme:
        """The theme of the settings, in shades that can be read; with NO_COLOR, the theme without colors."""
        return themes.WITHOUT_COLORS if self.no_color else themes.readable(super().current_theme)

    def palette_entries(self, screen: Screen[Any], query: str) -> Iterator[PaletteEntry]:
        """Yield the palette's entries while `screen` is shown."""
        raise NotImplementedError

    def get_driver_class(self) -> type[Driver]:
        return quick_driver(super().get_driver_class())

    def get_line_filters(self) -> Sequence[LineFilter]:
        if self.no_color:
            return (themes.without_colors,)
        return (themes.reverse_selection,) if self.native_ansi_color else super().get_line_filters()

    @on(SettingsChanged)
    def _settings_changed(self) -> None:
        self.apply_settings()

    def _remember_theme(self, _: Theme) -> None:
        """Save a theme chosen in the palette. With NO_COLOR, Textual passes another theme than the chosen one."""
        if self.theme != self._applied_theme:
            self._choose_theme(self.theme)

    def _choose_theme(self, name: str) -> None:
        self._preview_theme(name)
        try:
            self.settings.choose("theme", name)
        except TutorError as error:
            self.show_error(error)

    def _preview_theme(self, name: str) -> None:
        """Show a theme without saving the choice."""
        self._applied_theme = self.theme = name

    def on_mount(self) -> None:
        self.theme_changed_signal.subscribe(self, self._remember_theme)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self.leave_at_once)

    def refresh_css(self, animate: bool = True) -> None:
        if self.screen_stack:
            super().refresh_css(animate)
        else:
            # Without a screen, the style sheets need not be read a second time (10 ms).
            self.stylesheet.set_variables(self.get_css_variables())
            self.stylesheet.update(self, animate=animate)

    def on_ready(self) -> None:
        if self._collector is not None:
            self.set_timer(START_AFTER_S, self._collector.start)
            self.set_interval(CHECK_EVERY_S, self._collector.collect_if_idle)

    async def on_event(self, event: events.Event) -> None:
        if self._collector is not None and isinstance(event, events.InputEvent):
            self._collector.note_input()
        if not isinstance(event, events.Key) or not await handle_escape(self, event):
            await super().on_event(event)

    def action_help_quit(self) -> None:
        """Ignore ctrl+c where no text is selected. Textual's message would cover the status line."""

    def action_command_palette(self) -> None:
        from gpututor.app.screens.palette import open_palette  # 10 ms: with its first use

        open_palette(self)

    def search_themes(self) -> None:
        from gpututor.app.screens.choices import ThemeDialog  # imported with its first use

        def end(name: str | None) -> None:
            if name is None:
                self.apply_settings()
            else:
                self._choose_theme(name)

        offered = themes.offered(self.available_themes)
        self.push_screen(ThemeDialog(offered, self.settings.now.theme, self._preview_theme), end)

    def leave_at_once(self) -> None:
        """Leave without questions: the terminal was closed, or the process got a signal."""
        self._client.cancel()
        self.exit()

    def _fatal_error(self) -> None:
        """Save what can be saved, and write the error to the log instead of printing it, as Textual would."""
        self.bell()
        self.panic(self.crash_message(sys.exc_info()[1]))

    def crash_message(self, error: BaseException | None) -> Text:
        """Write the log, save what can be saved, and return a message about both."""
        if error is not None:
            runtime.write_log(error)
        return Text(f"gpututor stopped in an unexpected way: {error!r}\n{self.rescue()} The log is {log_file()}")

    def rescue(self) -> str:
        """Save what can be saved, whatever else is broken, and describe the result."""
        raise NotImplementedError

    def show_error(self, error: TutorError) -> None:
        from gpututor.app.screens.base import error_dialog

        self.push_screen(error_dialog(error))

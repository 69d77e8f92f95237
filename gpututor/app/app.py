"""The learner's app, its palette, and saving text in a crash."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual import events, on
from textual.app import App
from textual.screen import ModalScreen, Screen
from textual.widget import Widget

from gpututor.app import runtime
from gpututor.app.base import BaseApp
from gpututor.app.commands import BY_ID, SCREENS, Pane, shown_keys
from gpututor.app.keys import key_faults
from gpututor.app.main.copying import COPIES
from gpututor.app.main.host import LearnerContext
from gpututor.app.main.screen import MainScreen
from gpututor.app.messages import KeyPassed, ReadyForKeys
from gpututor.app.runtime import GcScheduler, write_log
from gpututor.app.textual_private import forward_key
from gpututor.course.model import Course, Exercise
from gpututor.course.workspace import Workspace, make_workspace
from gpututor.errors import TutorError
from gpututor.paths import default_workspace
from gpututor.progress.database import briefly
from gpututor.progress.store import ProgressStore
from gpututor.settings import SETTINGS

if TYPE_CHECKING:
    from gpututor.app.screens.palette import PaletteEntry
    from gpututor.grading.client import GradingService
    from gpututor.hardware.inventory import Inventory


SETTLED_WITHIN_S = 1.0
"""Longest time for which keys wait for the effect of an earlier key."""


class GpututorApp(BaseApp):
    """The terminal trainer."""

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
        collector: GcScheduler | None = None,
    ) -> None:
        """Without a `workspace`, the welcome screen offers to make one in `new_workspace`.

        `find_devices` is called in a thread after the first paint. `collector`: None if other apps share the process.
        """
        super().__init__(client=client, collector=collector)
        self.settings.accept_keys(key_faults)
        self._course = course
        self._workspace = workspace
        self._progress = progress
        progress.patience = briefly  # reading must not delay keys; a thread of the main screen does the writing
        self._new_workspace = new_workspace or default_workspace(course.place)
        self._remembers = new_workspace is None
        """True to make a new workspace the default one."""
        self._find_devices = find_devices
        self._held_keys: deque[events.Event] = deque()
        """Keys that wait until the app has started, or until an earlier key has had its effect."""
        self._settles_until = 0.0
        """Time, of `time.monotonic`, after which keys no longer wait for the effect of the last key."""

    # Keep keys in order. A command's key bubbles up from widget to widget before the app runs the command. Over a slow
    # connection several keys arrive at once: without a wait, text typed right after `e` would go to the old focus.

    async def on_event(self, event: events.Event) -> None:
        is_input = isinstance(event, events.Key | events.Paste) and not event.is_forwarded
        if is_input and (self._held_keys or self._is_settling):
            self._held_keys.append(event)
            await self._handle_held_keys()  # if an effect never came
        else:
            await self._handle_event(event)

    @property
    def _top_screen(self) -> Screen[Any] | None:
        return self.screen_stack[-1] if self.screen_stack else None

    @property
    def _is_settling(self) -> bool:
        screen = self._top_screen
        if isinstance(screen, MainScreen) and not screen.is_ready:
            return True  # the editor and the list are not mounted yet
        return time.monotonic() < self._settles_until

    async def _handle_event(self, event: events.Event) -> None:
        is_new = isinstance(event, events.Key | events.Paste | events.MouseDown) and not event.is_forwarded
        if not is_new:
            await super().on_event(event)
            return
        screen, focused = self._top_screen, self.focused
        for main in self._main_screens:
            main.status.clear_reply()
            if isinstance(event, events.Key) and main is screen and main.is_vim_normal:
                if event.key == "ctrl+r":
                    forward_key(main.panes.editor, event)  # Vim's redo, not the command of the main screen
                    return
                if event.key.startswith("alt+") and event.key in main.active_bindings:
                    await App.on_event(self, event)  # a command with Alt; `BaseApp` would take it for Esc and a letter
                    return
        await super().on_event(event)
        if event.is_forwarded and isinstance(event, events.Key) and not _takes(focused, event):
            # This message follows the key on its way to the app.
            if target := focused or screen:
                self._settle(target.post_message(KeyPassed(screen)))
        else:
            self._wait_for_focus(screen)

    def _settle(self, is_expected: bool) -> None:
        self._settles_until = time.monotonic() + SETTLED_WITHIN_S if is_expected else 0.0

    def _wait_for_focus(self, before: Screen[Any] | None) -> None:
        """Hold further keys until the next refresh, if the last key moved the focus or opened another screen."""
        screen = self._top_screen
        if screen is None:
            return
        is_moving = isinstance(screen, MainScreen) and screen.panes.is_focus_moving
        if is_moving or screen is not before:
            self._settle(screen.call_after_refresh(self.post_message, ReadyForKeys()))

    @on(KeyPassed)
    async def _key_passed(self, message: KeyPassed) -> None:
        self._settles_until = 0.0
        self._wait_for_focus(message.screen)
        await self._handle_held_keys()

    @on(ReadyForKeys)
    async def _ready_for_keys(self) -> None:
        self._settles_until = 0.0
        await self._handle_held_keys()

    async def _handle_held_keys(self) -> None:
        while self._held_keys and not self._is_settling:
            await self._handle_event(self._held_keys.popleft())

    def action_help_quit(self) -> None:
        """Answer ctrl+c where no text is selected."""
        for main in self._main_screens:
            main.status.show_reply(f"Press {main.letter_of('leave')} to quit.")

    def copy_to_clipboard(self, text: str) -> None:
        """Copy, and say so in the status line: a terminal does not."""
        super().copy_to_clipboard(text)
        lines = text.rstrip("\n").splitlines()
        for main in self._main_screens:
            main.status.show_reply(f"Copied: {text.strip()}" if len(lines) < 2 else f"Copied {len(lines)} lines.")

    def leave_at_once(self) -> None:
        self._rescued()
        super().leave_at_once()

    @property
    def _main_screens(self) -> list[MainScreen]:
        return [screen for screen in self.screen_stack if isinstance(screen, MainScreen)]

    def rescue(self) -> str:
        return f"{self._rescued()} Start gpututor again to continue."

    def _rescued(self) -> str:
        files = [main.files for main in self._main_screens]
        try:
            for file in files:
                file.rescue()
        except Exception as error:
            write_log(error)
            return "Your last edits could not be saved."
        files = [file for file in files if file.is_open]
        if not files:
            return "No file was open."
        if all(file.is_saved for file in files):
            return "Your file is saved."
        return "Your last edits are stored as a draft, which the exercise offers when you open it again."

    def palette_entries(self, screen: Screen[Any], query: str) -> Iterator[PaletteEntry]:
        """Yield commands, the trace screen's tabs, the exercises in the order of the course, and lessons' sections."""
        from gpututor.app.screens.palette import PaletteEntry  # with the first use of the palette

        main = next(iter(self._main_screens), None)
        if main is not None and screen is main:
            yield from _main_entries(main, query)
        else:
            if screen is not self.screen_stack[0]:
                yield PaletteEntry("Back", "Close this.", partial(self.simulate_key, "escape"), (), "Esc")
            if hasattr(screen, "action_help"):
                help_here = partial(screen.run_action, "help")
                yield PaletteEntry("Help here", "Explain this screen and its keys.", help_here, (), "?")
            if main is not None and not isinstance(screen, ModalScreen):
                for entry in _main_entries(main, query):
                    yield replace(entry, act=partial(_leave_for, main, entry.act))
            else:
                yield PaletteEntry("Quit", BY_ID["leave"].help, self.action_quit, (), shown_keys(BY_ID["leave"]))
        yield PaletteEntry("Theme", "Choose other colors.", self.search_themes, ("colours", "dark", "light"))

    def get_default_screen(self) -> Screen[Any]:
        return self._welcome() if self._workspace is None else self._main(self._workspace)

    def _main(self, workspace: Workspace) -> MainScreen:
        learner = LearnerContext(self._course, workspace, self._progress, self.settings)
        return MainScreen(learner, self._first_exercise(), self._client, find_devices=self._find_devices)

    def _first_exercise(self) -> Exercise:
        """Return the last open exercise, or the first of the course."""
        return self._course.continue_at(self._progress.current_exercise())

    def _welcome(self) -> Screen[Any]:
        from gpututor.app.screens.welcome import WelcomeScreen

        runtime.read_later(self.stylesheet)
        first = self._first_exercise()
        return WelcomeScreen(
            self._new_workspace, len(self._course.lessons), len(self._course.exercises), f"{first.label} {first.title}"
        )

    def action_begin(self) -> None:
        """Make the learner's folder and go to the first exercise. A dialog reports a folder that cannot be made."""
        if self._main_screens:
            return  # Enter was pressed twice
        try:
            self._workspace, _ = make_workspace(self._new_workspace, self._course, remember=self._remembers)
        except TutorError as error:
            self.show_error(error)
            return
        self.push_screen(self._main(self._workspace))

    async def action_quit(self) -> None:
        for main in self._main_screens:
            await main.caught_up()
            main.leave()
            if main.files.is_asking:
                main.status.show_message("Answer first; gpututor then quits.")
            return
        self.exit()


def _takes(widget: Widget | None, key: events.Key) -> bool:
    return widget is not None and widget.check_consume_key(key.key, key.character)


def _leave_for(main: MainScreen, act: Callable[[], object]) -> None:
    """Leave the screens above the main one, then act there."""
    for screen in reversed(main.app.screen_stack):
        if screen is main:
            break
        screen.dismiss(None)
    main.call_later(act)


def _main_entries(main: MainScreen, query: str) -> Iterator[PaletteEntry]:
    from gpututor.app.screens.palette import PaletteEntry
    from gpututor.app.screens.trace import TABS

    for command in main.commands.values():
        act = partial(main.action_run_command, command.id)
        yield PaletteEntry(command.title, command.help, act, command.palette or (), shown_keys(command))
    for number, tab in enumerate(TABS):
        yield PaletteEntry(tab.title, tab.about, partial(main.attempts.show_device, number))
    what_if = next(command for command in SCREENS["trace"] if command.id == "what_if")
    yield PaletteEntry(what_if.title, what_if.help, main.attempts.show_what_if)
    for setting in SETTINGS:
        if setting.key != "theme":  # which has an entry on every screen
            show = partial(main.show_settings, setting.key)
            yield PaletteEntry(f"Setting: {setting.title}", setting.help, show)
    for title, (method, sentence) in COPIES.items():
        yield PaletteEntry(title, sentence, getattr(main.copying, method))
    for exercise in main.learner.course.exercises:
        open_it = partial(main.navigator.open_exercise, exercise, Pane.TASK)
        yield PaletteEntry(f"{exercise.label} {exercise.title}", exercise.summary, open_it)
    if query:
        yield from main.navigator.all_sections

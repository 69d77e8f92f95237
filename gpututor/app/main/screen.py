"""The main screen: how it starts and ends, and what its keys do."""

from __future__ import annotations

import asyncio
import importlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import BindingType

from gpututor.app import style_sheets
from gpututor.app.commands import Pane, bindings
from gpututor.app.grader import Client
from gpututor.app.main.finding import FindScreen
from gpututor.app.main.opening import Place
from gpututor.app.main.saving import LOOK_EVERY_S, Learner
from gpututor.app.messages import CommandChosen, DevicesFound, LineChosen, TabsReplaced
from gpututor.app.widgets.verdict_row import VerdictRow
from gpututor.course.exercise import Exercise
from gpututor.grading.words import count

if TYPE_CHECKING:
    from gpututor.grading.inventory import Inventory

KEEP_PLACE_EVERY_S = 3.0
"""How often it is noted where the learner is; at the end it is noted too."""


def _import_the_rest() -> None:
    """60 ms of imports that the first paint can do without. In a thread, so that keys are answered meanwhile."""
    for name in (
        "gpututor.app.widgets.editor.editor",
        "pygments.lexers.python",
        "gpututor.app.widgets.course_text",
        "gpututor.app.screens.dialogs",
        "gpututor.progress.keeper",
        "ctypes",  # which saving takes
    ):
        importlib.import_module(name)


class MainScreen(FindScreen):
    """Where a learner spends the time."""

    BINDINGS: ClassVar[list[BindingType]] = list(bindings())

    def __init__(
        self,
        learner: Learner,
        exercise: Exercise,
        client: Client,
        *,
        find_devices: Callable[[], Inventory] | None = None,
    ) -> None:
        super().__init__(learner, exercise, client)
        self._devices = find_devices
        self._place = Place()
        self.is_ready = False
        """Whether all that comes after the first paint is there."""

    def on_mount(self) -> None:
        # The text is on screen at once; the file, the list and the results, 30 ms of work, come right after it.
        self._place = self.place_left()
        self.show_pane(self._place.pane)
        self.call_after_refresh(self._after_first_paint)

    async def _after_first_paint(self) -> None:
        self.grader.warm()
        style_sheets.read_later(self.app.stylesheet)
        await asyncio.to_thread(_import_the_rest)
        await self.panes.add_editor()
        self.return_to(self._place)
        self.panes.editor.turn_colours_on()
        self.apply_settings()
        await self.panes.reader.start()
        self.is_ready = True
        self.set_interval(LOOK_EVERY_S, self.tick)
        self.set_interval(KEEP_PLACE_EVERY_S, self.keep_place)
        threading.Thread(target=self._find_devices, daemon=True).start()
        broken = len(self.learner.course.problems)
        if broken:
            self.status.show_news(f"{count(broken, 'fault')} in the course's files: `gpututor doctor` names them.")
        elif self.learner.progress.notice:
            self.status.show_news(self.learner.progress.notice)

    def _find_devices(self) -> None:
        if self._devices is not None:
            self.post_message(DevicesFound(self._devices()))

    @on(CommandChosen)
    async def _do_chosen_command(self, message: CommandChosen) -> None:
        await self.action_after_text(message.id)

    async def action_after_text(self, command: str) -> None:
        """Do a command once the text that was typed before it stands in the editor: such keys overtake letters."""
        await self.caught_up()
        await self.run_action(command)

    async def caught_up(self) -> None:
        """Wait until the editor has all the text that was typed so far."""
        # Before it has the focus, it need not be: a key before the first paint would wait for its import.
        if self.panes.has_editor and self.focused is self.panes.editor:
            await self.panes.editor.caught_up()

    @on(LineChosen)
    def _go_to_line(self, message: LineChosen) -> None:
        line, is_there = message.line, True
        if message.of is not None:
            from gpututor.app.lines_now import line_now

            line, is_there = line_now(message.of, self.editor_text, line)
        self.show_pane(Pane.CODE)
        gone = "" if is_there else f"Line {message.line} of that run was changed or removed since. It stood here."
        # Only a displayed editor knows its size, and so how far to scroll.
        self.call_after_refresh(self._mark_line, line, gone)

    def _mark_line(self, line: int, gone: str) -> None:
        """Go to a line; `gone`: why it is not the one that was asked for."""
        self.panes.editor.go_to_line(line, marked=not gone)
        self.tell_of_line()  # the cursor may have been there before
        if gone:
            self._told_at_cursor = self.panes.editor.words_at_cursor()  # which would take the place of these
            self.status.show_news(gone)

    # Commands

    def action_run_checks(self) -> None:
        self.start_run()

    def action_go_to_failure(self) -> None:
        row = self.panes.results.first_failure
        if row is None or row.place is None:
            self.status.show_answer("No failed check points at a line.")
            return
        self.post_message(row.place)

    def action_open_check(self) -> None:
        if isinstance(self.focused, VerdictRow):
            self.focused.action_open_or_close()

    def action_help(self) -> None:
        from gpututor.app.screens.help import HelpScreen

        self.app.push_screen(HelpScreen(self.panes.current))

    @on(TabsReplaced)
    def _tell_of_tabs(self) -> None:
        self.status.show_news("Each tab at the start of a line became four spaces.")

    def action_select_all(self) -> None:
        self.panes.editor.action_select_all()

    def action_toggle_comment(self) -> None:
        self.panes.editor.action_toggle_comment()

    def action_quit(self) -> None:
        """Leave, with everything saved and the run stopped."""
        if self._desk is not None and not self.save_or_ask(self.action_quit, leaving=True):
            return
        self.keep_place()
        if self.running:
            self.grader.cancel()
        self.app.exit()

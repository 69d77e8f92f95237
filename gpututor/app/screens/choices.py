"""Dialogs that choose the learner's own editor and the theme."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.theme import Theme
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from gpututor.app.commands import foot, screen_bindings
from gpututor.app.screens.base import BaseModal
from gpututor.app.widgets.base import PlainText


class EditorDialog(BaseModal[str]):
    """A box for a command, and the installed editors to put there. Dismissed with the command; None: cancelled."""

    BINDINGS = screen_bindings("editor")

    def __init__(self, installed: Sequence[tuple[str, str]], command: str = "", typed: str = "") -> None:
        """`installed`: commands, and where they open. The box begins with `typed`, else with `command`."""
        super().__init__()
        self._installed = installed
        self._box = Input(typed or command, placeholder="such as: code --wait", compact=True, select_on_focus=not typed)
        rows = (Option(Content.assemble((f"{name:<14}", "bold"), where)) for name, where in installed)
        self._list = OptionList(*rows, id="choices", markup=False, compact=True)
        self._list.can_focus = False

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -choices"):
            yield PlainText("Own editor: the command that opens your file", classes="title")
            yield PlainText("Command; empty: $VISUAL, else $EDITOR", classes="label")
            yield self._box
            words = "Installed here" if self._installed else "None of the usual editors is installed here."
            yield PlainText(words, classes="label")
            yield self._list
            yield PlainText(foot("editor"), classes="foot")

    def on_mount(self) -> None:
        if self._box.is_attached:  # not while the app is leaving: Textual mounts nothing then
            commands = [name for name, _ in self._installed]
            self._list.highlighted = commands.index(self._box.value) if self._box.value in commands else None
            self._box.focus()

    def type(self, text: str) -> None:
        """Append text that was typed before the box had the focus."""
        self._box.value += text
        self._box.cursor_position = len(self._box.value)

    def action_move(self, by: int) -> None:
        """Put the next or previous installed editor into the box."""
        if self._installed:
            before_first, at = -1 if by > 0 else 0, self._list.highlighted
            row = ((before_first if at is None else at) + by) % len(self._installed)
            self._list.highlighted = row
            self._box.value = self._installed[row][0]
            self._box.action_end()

    @on(Input.Submitted)
    def _take(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(event.value.strip())

    @on(OptionList.OptionSelected)
    def _take_clicked(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.dismiss(self._installed[event.option_index][0])


class ThemeDialog(BaseModal[str]):
    """The themes, previewed as the cursor moves. Dismissed with the chosen theme; None: cancelled."""

    BINDINGS = screen_bindings("themes")

    def __init__(self, themes: Sequence[Theme], current: str, preview: Callable[[str], None]) -> None:
        """`preview` is called with the name of the theme at the cursor."""
        super().__init__()
        self._names = [theme.name for theme in themes]
        self._current, self._preview = current, preview
        rows = (Option(f"{theme.name:<24}{_about(theme)}") for theme in themes)
        self._list = OptionList(*rows, id="choices", markup=False, compact=True)

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -choices"):
            yield PlainText("Theme", classes="title")
            yield self._list
            yield PlainText(foot("themes"), classes="foot")

    def on_mount(self) -> None:
        if self._list.is_attached:
            self._list.highlighted = self._names.index(self._current) if self._current in self._names else 0
            self._list.focus()

    @on(OptionList.OptionHighlighted)
    def _show(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        self._preview(self._names[event.option_index])

    @on(OptionList.OptionSelected)
    def _choose(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.dismiss(self._names[event.option_index])

    async def action_list(self, action: str) -> None:
        await self._list.run_action(action)


def _about(theme: Theme) -> str:
    return "your terminal's colors" if theme.ansi else "dark" if theme.dark else "light"

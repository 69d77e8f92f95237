"""The help screen: every key, from the table of commands."""

from __future__ import annotations

from itertools import groupby
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from gpututor.app.commands import COMMANDS, EDITING, Command, key_name
from gpututor.app.standing import State
from gpututor.app.widgets.plain import PlainText

_KEYS_WIDTH = 18
_MORE = {
    EDITING: (
        ("Tab  Shift+Tab", "Indent and dedent."),
        ("^z  ^y", "Undo and redo."),
        ("Esc", "Leave the editor; letters are commands outside it."),
    ),
    "In lists and texts": (
        ("j k  ↓ ↑", "Down and up."),
        ("g G", "To the top and to the end."),
        ("Enter", "Open; on a failed check: go to its line."),
        (" ".join(state.glyph for state in State), "An exercise that you passed, started, have to do."),
        ("^p", "Find any command or exercise by its name."),
    ),
}


class HelpScreen(ModalScreen[None]):
    """Any of its keys closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,f1,question_mark,enter", "close", show=False),
        Binding("j", "scroll(1)", show=False),
        Binding("k", "scroll(-1)", show=False),
    ]

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -tall"):
            yield PlainText("Keys", classes="title")
            with VerticalScroll(id="keys"):
                yield Static(help_content())
            yield PlainText("Esc closes", classes="foot")

    def on_mount(self) -> None:
        self.query_one("#keys").focus()

    def action_scroll(self, by: int) -> None:
        self.query_one("#keys").scroll_relative(y=by, animate=False)

    def action_close(self) -> None:
        self.dismiss(None)


def help_content() -> Content:
    parts: list[Content | str | tuple[str, str]] = []
    for group, commands in groupby(COMMANDS, key=lambda command: command.group):
        parts.append((f"{group}\n", "bold $text-accent"))
        parts += [_line(_keys(command), command.help) for command in commands]
        parts += [_line(*entry) for entry in _MORE.get(group, ())]
        parts.append("\n")
    parts.append(("In lists and texts\n", "bold $text-accent"))
    parts += [_line(*entry) for entry in _MORE["In lists and texts"]]
    parts.append(("\nLetters and digits work outside the editor, the other keys everywhere.\n", "$foreground-muted"))
    return Content.assemble(*parts)


def _keys(command: Command) -> str:
    return "  ".join(key_name(key) for key in (*command.letters, *command.keys))


def _line(keys: str, help_: str) -> Content:
    return Content.assemble((f"  {keys:<{_KEYS_WIDTH}}", "bold"), f" {help_}\n")

"""The help screen: what the pane in use is, its own keys, and then every key, from the table of commands."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from functools import partial
from itertools import groupby
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from gpututor.app.commands import ABOUT, COMMANDS, EDITING, Command, Pane, foot, key_name, screen_bindings
from gpututor.app.screens.base import BaseModal
from gpututor.app.widgets.base import PlainText
from gpututor.progress.overview import State

_KEYS_WIDTH = 16
_IN_TEXTS = "In lists and texts"
_MORE = {
    EDITING: (
        ("Tab  Shift+Tab", "Indent and dedent."),
        ("^z  ^y", "Undo and redo."),
        ("Alt+r w l", "In Find: regex, whole word, replace all."),
        ("Esc", "Leave the editor; letters are commands outside it."),
    ),
    _IN_TEXTS: (
        ("j k  ↓ ↑", "Down and up."),
        ("g G", "To the top and to the end."),
        ("Enter", "Open; on a failed check: go to its line."),
        (" ".join(state.glyph for state in State), "Passed, started, to do."),
        ("^p", "Find any command or exercise by its name."),
    ),
}


class HelpText(Static):
    """The help, its lines broken so that the keys have a column of their own."""

    def __init__(self, content: Callable[[int], Content]) -> None:
        super().__init__()
        self._content = content

    def on_resize(self, event: events.Resize) -> None:
        self.update(self._content(event.size.width))


class TextScreen(BaseModal[None]):
    """A text to scroll."""

    BINDINGS: ClassVar[list[BindingType]] = screen_bindings("text")

    def __init__(self, title: str, content: Callable[[int], Content]) -> None:
        """`content` is the text, in lines of at most so many columns."""
        super().__init__()
        self._title = title
        self._content = content

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -tall"):
            yield PlainText(self._title, classes="title")
            with VerticalScroll(id="keys"):
                yield HelpText(self._content)
            yield PlainText(foot("text"), classes="foot")

    def on_mount(self) -> None:
        self.query_one("#keys").focus()

    def action_scroll(self, by: int) -> None:
        self.query_one("#keys").scroll_relative(y=by, animate=False)

    def action_page(self) -> None:
        self.query_one("#keys").scroll_page_down(animate=False)

    def action_end(self, which: str) -> None:
        keys = self.query_one("#keys")
        (keys.scroll_home if which == "home" else keys.scroll_end)(animate=False)

    def action_close(self) -> None:
        self.dismiss(None)


def help_screen(pane: Pane) -> TextScreen:
    """Explain `pane`, which the learner is looking at, and list every key."""
    return TextScreen(f"{pane.heading}, and all keys", partial(help_content, pane))


def help_content(pane: Pane, width: int) -> Content:
    """What `pane` is and its keys, then all keys, in lines of at most `width` columns."""
    about = ABOUT[pane]
    parts: list[Content | str | tuple[str, str]] = []
    parts += [f"{line}\n" for line in textwrap.wrap(about.sentence, max(20, width))]
    parts += [help_line(*entry, width) for entry in about.keys]
    for group, commands in groupby(COMMANDS, key=lambda command: command.group):
        parts.append((f"\n{group}\n", "bold $text-accent"))
        parts += [help_line(_keys(command), command.help, width) for command in commands]
        parts += [help_line(*entry, width) for entry in _MORE.get(group, ())]
    parts.append((f"\n{_IN_TEXTS}\n", "bold $text-accent"))
    parts += [help_line(*entry, width) for entry in _MORE[_IN_TEXTS]]
    rest = "Letters and digits work outside the editor; other keys work everywhere."
    parts.append(("\n" + "\n".join(textwrap.wrap(rest, max(20, width))), "$foreground-muted"))
    return Content.assemble(*parts)


def glossary_screen(text: str) -> TextScreen:
    """Show a course's glossary: Markdown with a paragraph for each word, as `**word**: its meaning`."""
    return TextScreen("Glossary", partial(glossary_content, text))


def glossary_content(text: str, width: int) -> Content:
    parts: list[Content | str | tuple[str, str]] = []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        word, separator, meaning = " ".join(paragraph.split()).removeprefix("**").partition("**")
        if paragraph.startswith("**") and separator:
            lines = textwrap.wrap(meaning.removeprefix(":").strip(), max(20, width - 4))
            parts += [(f"{word}\n", "bold $text-accent"), *(f"    {line}\n" for line in lines), "\n"]
    return Content.assemble(*parts)


def _keys(command: Command) -> str:
    return "  ".join(dict.fromkeys(key_name(key) for key in (*command.letters, *command.keys)))


def help_line(keys: str, help_: str, width: int) -> Content:
    """The keys in their column, the words beside them; keys that need more have the line to themselves."""
    first, *rest = textwrap.wrap(help_, max(16, width - _KEYS_WIDTH - 3)) or [""]
    indent = " " * (_KEYS_WIDTH + 3)
    if len(keys) > _KEYS_WIDTH:
        shown = Content.assemble((f"  {keys}\n", "bold"), f"{indent}{first}\n")
    else:
        shown = Content.assemble((f"  {keys:<{_KEYS_WIDTH}}", "bold"), f" {first}\n")
    return Content.assemble(shown, *(f"{indent}{line}\n" for line in rest))

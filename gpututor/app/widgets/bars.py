"""Bars of one line at the top and the bottom of a screen: tabs, status, keys."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import accumulate

from textual import events
from textual.content import Content
from textual.geometry import Offset
from textual.message import Message
from textual.style import Style
from textual.widget import Widget

from gpututor.app.commands import KeyHint
from gpututor.app.themes import CHOSEN
from gpututor.app.wording import path_shortened
from gpututor.text import escape_control_chars

_PALE = "$foreground-muted"
_TITLE_WIDTH = 26
"""Columns for the title next to tabs that shrink. A few titles of the course are longer, and are cut at 80 columns."""
COMMAND, EDIT = "COMMAND", "EDIT"
"""Modes: letters are commands, or text."""


class TabBar(Widget):
    """Tabs with their keys, the current one marked; a title on the right."""

    @dataclass(eq=False, repr=False)
    class Chosen(Message):
        """The learner clicked a tab."""

        number: int
        """Number from 0."""

    def __init__(
        self, names: Sequence[str], *, heading: str = "", shrinks: bool = False, id: str | None = None
    ) -> None:
        """`heading`: a text before the tabs. With `shrinks`, tabs are narrower on narrow screens, for the title."""
        super().__init__(id=id)
        self._names = tuple(names)
        self._keys = tuple(str(number) for number in range(1, len(names) + 1))
        self._heading = heading
        self._shrinks = shrinks
        self._current, self._title, self._passed = 0, "", False
        self._flagged: Collection[int] = ()

    def show_keys(self, keys: Sequence[str]) -> None:
        """Show other keys than the numbers, one for each tab."""
        self._keys = tuple(keys)
        self.refresh()

    def show(self, current: int, title: str = "", flagged: Collection[int] = ()) -> None:
        """Mark the tab `current`, from 0; tabs in `flagged` get a `!`."""
        title = escape_control_chars(title)
        if (current, title, flagged) != (self._current, self._title, self._flagged):
            self._current, self._title, self._flagged = current, title, flagged
            self.refresh()

    def show_passed(self, passed: bool) -> None:
        """Put a check mark before the title, or remove it."""
        if passed != self._passed:
            self._passed = passed
            self.refresh()

    def render(self) -> Content:
        line = self._start
        for number, text in enumerate(self._tabs()):
            tab = Content.assemble((text, CHOSEN if number == self._current else _PALE))
            line += tab.stylize(Style.from_meta({"tab": number}))
        width = self.size.width - line.cell_length - 2
        if not self._title or width < 6:
            return line
        title = Content(f"{'✓ ' * self._passed}{self._title}").truncate(width, ellipsis=True)
        return Content.assemble(line, " " * (width - title.cell_length + 1), title.stylize(_PALE))

    def places(self) -> list[Offset]:
        widths = [self._start.cell_length, *map(len, self._tabs()[:-1])]
        return [Offset(self.region.x + x, self.region.y) for x in accumulate(widths)]

    def on_click(self, event: events.Click) -> None:
        number = event.style.meta.get("tab")
        if number is not None:
            self.post_message(self.Chosen(int(number)))

    @property
    def _start(self) -> Content:
        return Content.assemble((f"{self._heading}  ", "bold")) if self._heading else Content(" ")

    def _tabs(self) -> list[str]:
        """Return the text of each tab. The widths of tabs that shrink depend on the screen's, not on the title's."""
        titles = zip(self._keys, self._names, strict=True)
        names = [f"{key} {name}{' !' * (number in self._flagged)}" for number, (key, name) in enumerate(titles)]
        wide = [f" {name} " for name in names]
        if not self._shrinks:
            return wide
        tight = [f" {name}" for name in names]
        short = [f" {name} " if at == self._current else f" {self._keys[at]} " for at, name in enumerate(names)]
        width = self.size.width - _TITLE_WIDTH - 4
        return next((tabs for tabs in (wide, tight, short) if sum(map(len, tabs)) <= width), short)


class StatusBar(Widget):
    """Mode and last event on the left; state of the file and, if it fits, the device on the right."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._mode = COMMAND
        self.message = self._reply = self._run = ""
        self._file = self._device = ""

    def show_mode(self, mode: str) -> None:
        """Name what letters are: `COMMAND`, `EDIT`, or a mode of Vim."""
        if mode != self._mode:
            self._mode = mode
            self.refresh()

    def show_message(self, text: str) -> None:
        self._show(escape_control_chars(text), "")

    def show_reply(self, text: str) -> None:
        """Show the answer to a key, instead of the message and until the next key."""
        self._show(self.message, escape_control_chars(text))

    def show_run(self, text: str) -> None:
        """Show the progress of a run, instead of the message and until it is empty."""
        text = escape_control_chars(text)
        if text != self._run:
            self._run = text
            self.refresh()

    def clear_reply(self) -> None:
        self._show(self.message, "")

    def _show(self, message: str, reply: str) -> None:
        if (message, reply) != (self.message, self._reply):
            self.message, self._reply = message, reply
            self.refresh()

    def show_file_state(self, file: str, device: str = "") -> None:
        file, device = escape_control_chars(file), escape_control_chars(device)
        if (file, device) != (self._file, self._device):
            self._file, self._device = file, device
            self.refresh()

    def render(self) -> Content:
        mode = Content.assemble((f" {self._mode} ", _PALE if self._mode == COMMAND else CHOSEN))
        width = self.size.width - mode.cell_length - 1
        message, file = Content(self._reply or self._run or self.message), Content(self._file)
        both = Content(" · ".join(filter(None, (self._file, self._device))))
        state = both if message.cell_length + 2 * bool(message) + both.cell_length <= width else file
        state = state.truncate(width, ellipsis=True).stylize(_PALE)
        left = width - state.cell_length - 2
        if left < 1:
            return Content.assemble(mode, state)
        message = Content(path_shortened(message.plain, left))
        return Content.assemble(mode, message.truncate(left, ellipsis=True, pad=True), "  ", state)


class KeyBar(Widget):
    """Keys and their actions: as many as fit."""

    @dataclass(eq=False, repr=False)
    class Chosen(Message):
        """The learner clicked a command."""

        id: str

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._keys: tuple[KeyHint, ...] = ()
        self._always: tuple[KeyHint, ...] = ()

    def show(self, keys: Sequence[KeyHint], always: Sequence[KeyHint] = ()) -> None:
        """Show `keys`, the most useful first, as far as they fit before `always`."""
        if (tuple(keys), tuple(always)) != (self._keys, self._always):
            self._keys, self._always = tuple(keys), tuple(always)
            self.refresh()

    def render(self) -> Content:
        left = self.size.width + 1 - sum(map(_width, self._always))
        shown = []
        for hint in self._keys:
            if _width(hint) <= left:
                left -= _width(hint)
                shown.append(hint)
        parts = [Content(" ")]
        for hint in (*shown, *self._always):
            part = Content.assemble((hint.key, "$text-accent bold"), (f" {hint.title}", _PALE), "  ")
            parts.append(part.stylize(Style.from_meta({"command": hint.command})) if hint.command else part)
        return Content("").join(parts)

    def on_click(self, event: events.Click) -> None:
        id = event.style.meta.get("command")
        if id:
            self.post_message(self.Chosen(str(id)))


def _width(hint: KeyHint) -> int:
    return len(hint.key) + len(hint.title) + 3

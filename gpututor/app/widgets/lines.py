"""The three lines around the panes: tabs on top, status and keys below."""

from __future__ import annotations

from typing import NamedTuple

from textual import events
from textual.content import Content
from textual.geometry import Offset
from textual.style import Style
from textual.widget import Widget

from gpututor.app.commands import BY_ID, FOOTERS, Pane, shown_key
from gpututor.app.messages import CommandChosen, PaneChosen
from gpututor.app.themes import CHOSEN
from gpututor.plain_text import visible


class _Tab(NamedTuple):
    pane: Pane
    text: str


class TabLine(Widget):
    """The panes by number, the one in use marked; the exercise on the right."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._current = Pane.TASK
        self._title = ""

    def show(self, current: Pane, title: str) -> None:
        title = visible(title)
        if (current, title) != (self._current, self._title):
            self._current, self._title = current, title
            self.refresh()

    def render(self) -> Content:
        tabs = self._tabs()
        line = Content.assemble(
            " ",
            *(
                Content.assemble((tab.text, self._style(tab.pane))).stylize(Style.from_meta({"pane": tab.pane.value}))
                for tab in tabs
            ),
        )
        room = self.size.width - line.cell_length - 2
        if room < 6:
            return line
        title = Content(self._title).truncate(room, ellipsis=True)
        return Content.assemble(line, " " * (room - title.cell_length + 1), title.stylize("$foreground-muted"))

    def _tabs(self) -> list[_Tab]:
        """The tabs as wide as the title beside them lets them be: it is whole as long as it can be."""
        panes = [(pane, f"{pane.digit} {pane.heading}") for pane in Pane]
        wide = [_Tab(pane, f" {name} ") for pane, name in panes]
        tight = [_Tab(pane, f" {name}") for pane, name in panes]
        short = [_Tab(pane, f" {name} " if pane is self._current else f" {pane.digit} ") for pane, name in panes]
        room = self.size.width - Content(self._title).cell_length - 4
        return next((tabs for tabs in (wide, tight, short) if sum(len(tab.text) for tab in tabs) <= room), short)

    def places(self) -> list[tuple[Pane, Offset]]:
        """Where on the screen each tab begins."""
        found: list[tuple[Pane, Offset]] = []
        x = self.region.x + 1
        for tab in self._tabs():
            found.append((tab.pane, Offset(x, self.region.y)))
            x += len(tab.text)
        return found

    def _style(self, pane: Pane) -> str:
        if pane is not self._current:
            return "$foreground-muted"
        return CHOSEN

    def on_click(self, event: events.Click) -> None:
        name = event.style.meta.get("pane")
        if name:
            self.post_message(PaneChosen(Pane(name)))


class StatusLine(Widget):
    """On the left what happened last, on the right how the file and the device stand.

    Where there is no room for all, the device goes first; how the file stands is always there.
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._news = self._answer = ""
        self._file = self._device = ""

    def show_news(self, text: str) -> None:
        """Show what happened, until something else does."""
        self._show(visible(text), "")

    def show_answer(self, text: str) -> None:
        """Show why a key could do nothing, over the news and until the next key."""
        self._show(self._news, visible(text))

    def forget_answer(self) -> None:
        """Show the news again."""
        self._show(self._news, "")

    def _show(self, news: str, answer: str) -> None:
        if (news, answer) != (self._news, self._answer):
            self._news, self._answer = news, answer
            self.refresh()

    def show_standing(self, file: str, device: str = "") -> None:
        file, device = visible(file), visible(device)
        if (file, device) != (self._file, self._device):
            self._file, self._device = file, device
            self.refresh()

    def render(self) -> Content:
        width = self.size.width - 2
        news, file = Content(self._answer or self._news), Content(self._file)
        both = Content(" · ".join(filter(None, (self._file, self._device))))
        standing = both if news.cell_length + 2 * bool(news) + both.cell_length <= width else file
        standing = standing.truncate(width, ellipsis=True)
        room = width - standing.cell_length - 2
        if room < 1:
            return Content.assemble(" ", standing.stylize("$foreground-muted"))
        news = news.truncate(room, ellipsis=True, pad=True)
        return Content.assemble(" ", news, "  ", standing.stylize("$foreground-muted"))


class KeyLine(Widget):
    """The keys worth knowing in the current pane: as many as fit, the last two always."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._commands = FOOTERS[Pane.TASK]
        self._in_editor = False
        self._keys: tuple[tuple[str, str], ...] = ()
        """Keys that are no commands, as (key, what it does); they come first."""

    def show(self, commands: tuple[str, ...], *, in_editor: bool, keys: tuple[tuple[str, str], ...] = ()) -> None:
        """Name these commands, the most useful first; the last two are help and quit.

        `keys` are the pane's own, as (key, what it does), and come first. Without commands they stand alone.
        """
        if (commands, in_editor, keys) != (self._commands, self._in_editor, self._keys):
            self._commands, self._in_editor, self._keys = commands, in_editor, keys
            self.refresh()

    def render(self) -> Content:
        kept = list(self._commands[-2:])
        room = self.size.width - sum(self._key(id).cell_length for id in kept)
        own = Content("")
        for key in self._keys:
            wider = Content.assemble(own, self._named(*key))
            own = wider if wider.cell_length < room else own
        for id in self._commands[:-2]:
            candidate = [*kept[:-2], id, *kept[-2:]]
            if own.cell_length + sum(self._key(each).cell_length for each in candidate) < self.size.width:
                kept = candidate
        return Content.assemble(" ", own, *(self._key(id) for id in kept))

    def _key(self, id: str) -> Content:
        command = BY_ID[id]
        text = self._named(shown_key(command, self._in_editor), command.title)
        return text.stylize(Style.from_meta({"command": id}))

    def _named(self, key: str, title: str) -> Content:
        return Content.assemble((key, "$text-accent bold"), (f" {title}", "$foreground-muted"), "  ")

    def on_click(self, event: events.Click) -> None:
        id = event.style.meta.get("command")
        if id:
            self.post_message(CommandChosen(str(id)))

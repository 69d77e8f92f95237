"""Tabs of the trace screens: their base, and the stack that shows one of them at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol, cast

from textual import on
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.widget import Widget
from textual.widgets import OptionList

from gpututor.app.commands import KeyHint, bar, screen_bindings
from gpututor.app.messages import LineChosen
from gpututor.app.widgets.bars import KeyBar, TabBar
from gpututor.app.widgets.base import OptionRows, PlainText


class ListTab(Vertical):
    """Base of tabs with a list; posts `LineChosen` for the row that the learner picks."""

    BINDINGS = screen_bindings("list")
    KEYS = "list"

    def __init__(self) -> None:
        super().__init__()
        self.list = OptionRows(markup=False, compact=True)

    def line_at(self, position: int) -> int | None:
        """Return the line of the file that a row of the list points at, from 1."""
        raise NotImplementedError

    def take_focus(self) -> None:
        self.list.focus()

    async def action_list(self, action: str) -> None:
        await self.list.run_action(action)

    @on(OptionList.OptionSelected)
    def _choose(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        line = self.line_at(event.option_index)
        if line is None:
            self.app.bell()
        else:
            self.post_message(LineChosen(line))


class Tab(Protocol):
    """Interface of the widget in a tab. A method `take_focus` passes the focus on to a part of the widget."""

    KEYS: str
    """The tab's table in `commands.WIDGETS`."""

    def show(self, shown: Any) -> None: ...


class TabStack(Vertical):
    """Tabs by number, one shown at a time; all show the same subject."""

    def __init__(self, titles: Sequence[str], make: Callable[[int], Widget]) -> None:
        """`make` creates the widget of a tab, counted from 0."""
        super().__init__()
        self.number = 0
        self.subject: object = None
        """None while there is nothing to show in the tabs."""
        self.made: dict[int, Widget] = {}
        """Tabs that were shown at least once."""
        self._count = len(titles)
        self._make = make
        self._top = TabBar(titles, id="device-tabs")
        self._about = PlainText("", id="device-case")
        self._body = Container(id="device-body")
        self._message = PlainText("", classes="nothing")
        self._notice = PlainText("", id="device-news")
        self._keys = KeyBar(id="device-keys")
        self._message.display = self._notice.display = False
        self._title, self._flagged, self._screen_keys = "", tuple[int, ...](), tuple[KeyHint, ...]()

    def compose(self) -> ComposeResult:
        yield self._top
        yield self._about
        with self._body:
            yield self._message
        yield self._notice
        yield self._keys

    @property
    def tab(self) -> Widget | None:
        """The widget of the current tab; None before it is created."""
        return self.made.get(self.number)

    @property
    def keys(self) -> str:
        """The table of keys of the current tab; empty while it is not shown."""
        return cast("Tab", self.tab).KEYS if self.tab is not None and self.tab.display else ""

    async def turn_to(self, number: int) -> None:
        """Show a tab, counted from 0."""
        self.number = number
        if self.subject is not None:
            await self.show(self.subject)
        self._show_bars()

    async def turn(self, by: int) -> None:
        """Show the tab `by` steps further; after the last tab comes the first."""
        await self.turn_to((self.number + by) % self._count)

    @on(TabBar.Chosen)
    async def _turn_to_chosen(self, message: TabBar.Chosen) -> None:
        message.stop()
        await self.turn_to(message.number)

    async def show(self, subject: object) -> None:
        """Bring the current tab to the front with `subject`, and give it the keys."""
        self.subject = subject
        tab = self.tab
        if tab is None:
            tab = self.made[self.number] = self._make(self.number)
            await self._body.mount(tab)
        self._message.display = False
        for other in self.made.values():
            other.display = other is tab
        cast("Tab", tab).show(subject)
        self._show_bars()
        getattr(tab, "take_focus", tab.focus)()

    def show_message(self, words: str) -> None:
        """Show words in place of the tabs."""
        self.subject = None
        for tab in self.made.values():
            tab.display = False
        self._message.update(words)
        self._message.display = True
        self._show_bars()

    def show_notice(self, words: str) -> None:
        """Show a line above the keys, until the next one."""
        self._notice.update(words)
        self._notice.display = bool(words)

    def label(self, title: str, about: str, keys: Sequence[KeyHint], flagged: Collection[int] = ()) -> None:
        """Show the title, a line about the subject, and the keys of the screen after the keys of the tab."""
        self._title, self._screen_keys, self._flagged = title, tuple(keys), tuple(flagged)
        self._about.update(about)
        self._about.display = bool(about)
        self._show_bars()

    def _show_bars(self) -> None:
        self._top.show(self.number, self._title, self._flagged)
        self._keys.show(bar(self.keys) if self.keys else [], self._screen_keys)

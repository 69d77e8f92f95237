"""Tabs of the trace screens: their base, and the stack that shows one of them at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, ClassVar, Protocol, cast

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.widget import Widget
from textual.widgets import OptionList

from gpututor.app.commands import KeyHint, split_keys
from gpututor.app.messages import LineChosen
from gpututor.app.widgets.bars import KeyBar, TabBar
from gpututor.app.widgets.base import OptionRows, PlainText


class ListTab(Vertical):
    """The list and its keys; posts `LineChosen` for what was picked."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "list('cursor_down')", show=False),
        Binding("k", "list('cursor_up')", show=False),
        Binding("g", "list('first')", show=False),
        Binding("G", "list('last')", show=False),
    ]
    KEYS = "↑↓ choose · Enter line"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.list = OptionRows(markup=False, compact=True)

    def line_at(self, position: int) -> int | None:
        """The line of the file that a row of the list points at, from 1."""
        raise NotImplementedError

    def take_focus(self) -> None:
        """Give the keys to the list."""
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
    """Interface of the widget in a tab."""

    KEYS: str
    """Its own keys for the bar of keys, the most useful first: `←→ read · Enter line`."""

    def show(self, shown: Any) -> None: ...


class TabStack(Vertical):
    """Tabs by number, one shown at a time; all show the same subject."""

    def __init__(self, titles: Sequence[str], make: Callable[[int], Widget]) -> None:
        """`make` makes the widget of a tab, counted from 0."""
        super().__init__()
        self.number = 0
        self._make = make
        self.made: dict[int, Widget] = {}
        """Tabs that were shown at least once."""
        self._top = TabBar(titles, id="device-tabs")
        self._about = PlainText("", id="device-case")
        self._body = Container(id="device-body")
        self._message = PlainText("", classes="nothing")
        self._news = PlainText("", id="device-news")
        self._keys = KeyBar(id="device-keys")
        self._message.display = self._news.display = False

    def compose(self) -> ComposeResult:
        yield self._top
        yield self._about
        with self._body:
            yield self._message
        yield self._news
        yield self._keys

    @property
    def tab(self) -> Widget | None:
        """The widget of the current tab, once it is made."""
        return self.made.get(self.number)

    @property
    def tab_keys(self) -> list[KeyHint]:
        """Keys of the current tab, while it is shown."""
        return split_keys(getattr(self.tab, "KEYS", "")) if self.tab is not None and self.tab.display else []

    async def show(self, subject: object) -> None:
        """Bring the current tab to the front with `subject`."""
        tab = self.tab
        if tab is None:
            tab = self.made[self.number] = self._make(self.number)
            await self._body.mount(tab)
        self._message.display = False
        for other in self.made.values():
            other.display = other is tab
        cast("Tab", tab).show(subject)

    def refresh_others(self, subject: object) -> None:
        """Let the tabs behind the current one show `subject` too."""
        for number, tab in self.made.items():
            if number != self.number:
                cast("Tab", tab).show(subject)

    def take_focus(self) -> None:
        """Give the keys to the current tab."""
        if self.tab is not None:
            getattr(self.tab, "take_focus", self.tab.focus)()

    def show_message(self, words: str) -> None:
        """Show words in place of the tabs."""
        for tab in self.made.values():
            tab.display = False
        self._message.update(words)
        self._message.display = True

    def show_news(self, words: str) -> None:
        """Show a line above the keys, until the next one."""
        self._news.update(words)
        self._news.display = bool(words)

    def label(self, title: str, about: str, keys: Sequence[KeyHint], flagged: Collection[int] = ()) -> None:
        """Show the title, a line about the subject, and the keys of the screen, behind those of the tab."""
        self._top.show(self.number, title, flagged)
        self._about.update(about)
        self._about.display = bool(about)
        self._keys.show(self.tab_keys, keys)

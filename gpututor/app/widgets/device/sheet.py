"""A page of lines that is only scrolled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Generic, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

Shown = TypeVar("Shown")
_LEAST_WIDTH = 40


class Sheet(VerticalScroll, Generic[Shown], can_focus=True):
    """Lines that are drawn anew for each width. `lines` says which."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll_down", show=False),
        Binding("k", "scroll_up", show=False),
        Binding("g", "scroll_home", show=False),
        Binding("G", "scroll_end", show=False),
    ]
    KEYS = "↑↓ scroll"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._text = Static("")
        self._shown: Shown | None = None

    def lines(self, shown: Shown, width: int) -> Iterator[Content]:
        """What stands on it, `width` columns wide."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        yield self._text

    def show(self, shown: Shown) -> None:
        self._shown = shown
        self._draw()

    def take_focus(self) -> None:
        self.focus()

    def on_resize(self, event: events.Resize) -> None:
        self._draw()

    def _draw(self) -> None:
        if self._shown is not None:
            width = max(_LEAST_WIDTH, self.scrollable_content_region.width)
            self._text.update(Content("\n").join(self.lines(self._shown, width)))

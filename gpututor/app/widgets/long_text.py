"""A long text that scrolls: only the lines in sight are drawn, so that ten thousand are as quick as ten."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, NamedTuple

from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from gpututor.app.widgets.output import Section
from gpututor.plain_text import visible


class _Line(NamedTuple):
    text: str
    is_heading: bool


class LongText(ScrollView, can_focus=True):
    """Sections one below the other, their lines wrapped; `v` and the like are the screen's."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"long-text--heading"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll_down", show=False),
        Binding("k", "scroll_up", show=False),
        Binding("space", "page_down", show=False),
        Binding("g", "scroll_home", show=False),
        Binding("G", "scroll_end", show=False),
    ]

    def __init__(self, sections: Sequence[Section], first: int = 0, *, id: str | None = None) -> None:
        """`first`: the section that it opens at."""
        super().__init__(id=id)
        self._sections = sections
        self._first: int | None = first
        self._lines: list[_Line] = []
        self._width = 0

    def on_resize(self, event: events.Resize) -> None:
        width = self.scrollable_content_region.width
        if width == self._width or width <= 0:
            return
        self._width = width
        starts: list[int] = []
        self._lines = []
        for section in self._sections:
            starts.append(len(self._lines))
            self._lines += [_Line(text, True) for text in _wrapped(section.heading, width)]
            if section.text:
                self._lines += [_Line(text, False) for text in _wrapped(section.text, width)]
            self._lines.append(_Line("", False))
        self.virtual_size = Size(width, len(self._lines))
        if self._first is not None and starts:
            self.call_after_refresh(self.scroll_to, y=starts[self._first], animate=False)
        self._first = None
        self.refresh()

    def render_line(self, y: int) -> Strip:
        row = self.scroll_offset.y + y
        style = self.rich_style
        if row >= len(self._lines):
            return Strip.blank(self._width, style)
        line = self._lines[row]
        if line.is_heading:
            style += self.get_component_rich_style("long-text--heading", partial=True)
        return Strip([Segment(line.text, style)], cell_len(line.text)).adjust_cell_length(self._width, self.rich_style)

    def action_scroll_down(self) -> None:
        self.scroll_relative(y=1, animate=False)

    def action_scroll_up(self) -> None:
        self.scroll_relative(y=-1, animate=False)

    def action_page_down(self) -> None:
        self.scroll_relative(y=self.size.height - 1, animate=False)

    def action_page_up(self) -> None:
        self.scroll_relative(y=1 - self.size.height, animate=False)

    def action_scroll_home(self) -> None:
        self.scroll_home(animate=False)

    def action_scroll_end(self) -> None:
        self.scroll_end(animate=False)


def _wrapped(text: str, width: int) -> Iterator[str]:
    """The lines, none wider than `width` cells; those of a sentence broken between words, with the same indentation."""
    for line in visible(text).split("\n"):
        line = line.expandtabs(4)
        if len(line) <= width and (line.isascii() or cell_len(line) <= width):
            yield line
            continue
        yield from _broken(line, width)


def _broken(line: str, width: int) -> Iterator[str]:
    indent = line[: len(line) - len(line.lstrip(" "))][: width // 2]
    now = ""
    for word in line[len(indent) :].split(" "):
        if cell_len(indent) + cell_len(now) + cell_len(word) + (1 if now else 0) <= width:
            now = f"{now} {word}" if now else word
            continue
        if now:
            yield indent + now
        *whole, now = chop_cells(word, width - len(indent)) or [""]
        yield from (indent + piece for piece in whole)
    yield indent + now

"""The text of a submission, with its lines numbered; only what is in sight is drawn."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from gpututor.plain_text import lines_of, visible

_STEP = 8


class SubmissionText(ScrollView, can_focus=True):
    """Told the text, and which lines checks point at."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"submission-text--{name}" for name in ("number", "marked", "line")}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "by(1)", show=False),
        Binding("k,up", "by(-1)", show=False),
        Binding("space,pagedown", "page(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("l,right", "right(1)", show=False),
        Binding("h,left", "right(-1)", show=False),
        Binding("g,home", "end('home')", show=False),
        Binding("G,end", "end('end')", show=False),
    ]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._lines: list[str] = []
        self._marked: frozenset[int] = frozenset()
        self._line = 0

    def show(self, text: str, marked: Collection[int]) -> None:
        """Show a text; `marked`: the lines, from 1, that checks point at."""
        self._lines = [visible(line).expandtabs(4) for line in lines_of(text)]
        self._marked, self._line = frozenset(marked), 0
        width = max(map(cell_len, self._lines), default=0) + self._gutter
        self.virtual_size = Size(width, len(self._lines))
        self.scroll_to(0, 0, animate=False)
        self.refresh()

    def go_to(self, line: int) -> None:
        """Put a line in sight, and make it stand out."""
        self._line = max(1, min(line, len(self._lines)))
        self.scroll_to(0, max(0, self._line - 1 - self.size.height // 3), animate=False)
        self.refresh()

    @property
    def _gutter(self) -> int:
        return len(str(len(self._lines))) + 3

    def render_line(self, y: int) -> Strip:
        left, width, base = self.scroll_offset.x, self.scrollable_content_region.width, self.rich_style
        at = self.scroll_offset.y + y
        if at >= len(self._lines):
            return Strip.blank(width, base)
        number = at + 1
        sign = "▸" if number == self._line else "✗" if number in self._marked else " "
        style = base
        if number == self._line:
            style += self.get_component_rich_style("submission-text--line", partial=True)
        name = "marked" if sign != " " else "number"
        gutter = f"{number:>{self._gutter - 3}} {sign} "
        head = Strip([Segment(gutter, style + self.get_component_rich_style(f"submission-text--{name}", partial=True))])
        text = self._lines[at]
        shown = Strip([Segment(text, style)]).crop(left, left + max(0, width - self._gutter))
        strip = Strip([*head, *shown]).adjust_cell_length(width, style)
        if cell_len(text) - left > width - self._gutter:
            strip = Strip([*strip.crop(0, width - 1), Segment("…", style)])
        return strip

    def action_by(self, down: int) -> None:
        self.scroll_relative(y=down, animate=False)

    def action_page(self, by: int) -> None:
        self.scroll_relative(y=by * max(1, self.size.height - 1), animate=False)

    def action_right(self, by: int) -> None:
        self.scroll_relative(x=by * _STEP, animate=False)

    def action_end(self, which: str) -> None:
        (self.scroll_home if which == "home" else self.scroll_end)(animate=False)

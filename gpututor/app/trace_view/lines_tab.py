"""The tab of costs by line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from gpututor.app.editor.line_costs import all_calls, cost_in_words
from gpututor.app.trace_view.model import RunView, code
from gpututor.app.trace_view.tabs import ListTab
from gpututor.app.widgets.base import PlainText
from gpututor.grading.recording import LineCost
from gpututor.trace.formatting import bar, duration, size

_PALE = "$foreground-muted"
_MOST, _HAZARD = "●", "!"
_LEGEND = f"{_MOST} costs most   {_HAZARD} hazard   memory: all taken"
_NUMBER, _BAR = 6, 8


@dataclass(frozen=True)
class _Column:
    """One kind of cost."""

    heading: str
    width: int
    from_width: int = 0
    """How wide the tab must be for it."""


_COLUMNS = (
    _Column("time", 8),
    _Column("", _BAR, 90),
    _Column("kernels", 8),
    _Column("copies", 7),
    _Column("bytes", 10),
    _Column("waits", 6),
    _Column("waited", 8, 100),
    _Column("memory", 10, 90),
)


class LinesTab(ListTab):
    """A table of lines; `o` changes their order, Enter goes to a line."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("o", "sort", show=False),
    ]
    KEYS = "↑↓ choose · o order · Enter line"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._head = PlainText("")
        self._words = PlainText("", classes="words")
        self._legend = PlainText(_LEGEND, classes="legend")
        self._view: RunView | None = None
        self._by_cost = True
        self._drawn_width = 0

    def compose(self) -> ComposeResult:
        yield self._head
        yield self.list
        yield self._words
        yield self._legend

    def show(self, view: RunView) -> None:
        """Show the costs of a run, of all its calls together."""
        if self._view is not None and self._view.run is view.run and self._view.source == view.source:
            self._view = view
            return  # the traces were read; the costs were there before
        self._view = view
        self._draw()

    @property
    def by_cost(self) -> bool:
        """Whether the lines that cost most come first; else they stand as in the file."""
        return self._by_cost

    def on_resize(self, event: events.Resize) -> None:
        if self._width != self._drawn_width:
            self._draw()

    @property
    def _width(self) -> int:
        return self.list.scrollable_content_region.width or self.size.width

    def _draw(self, line: int | None = None) -> None:
        """Fill the list; the cursor goes to `line`, else to the line that costs most."""
        if self._view is None or not self._width:
            return
        self._drawn_width = self._width
        costs = {one.line: one for one in self._view.run.lines}
        dearest = max(costs.values(), key=time_of, default=None)
        lines = [one.line for one in sorted(costs.values(), key=lambda one: (-time_of(one), one.line))]
        if not self._by_cost and self._view.source is not None:
            lines = list(range(1, len(self._view.source_lines) + 1))
        elif not self._by_cost:
            lines.sort()
        self._head.update(self._heading())
        top = max(time_of(dearest) if dearest else 0, 1)
        most = dearest.line if dearest is not None and time_of(dearest) else None
        self.list.set_options(
            Option(self._row(number, costs.get(number), top, is_most=number == most), id=str(number))
            for number in lines
        )
        target = line if line in lines else most
        self.list.highlighted = lines.index(target) if target in lines else (0 if lines else None)
        self._tell()

    def _columns(self) -> list[_Column]:
        return [one for one in _COLUMNS if self._width >= one.from_width]

    @property
    def _room(self) -> int:
        """Columns for the code."""
        return max(8, self._width - _NUMBER - 2 - sum(one.width for one in self._columns()))

    def _heading(self) -> Content:
        assert self._view is not None
        order = "by time" if self._by_cost else "as in the file"
        if (calls := len(self._view.cases)) > 1:
            order = f"{all_calls(calls)}, {order}"
        words = Content(f"{'line':>{_NUMBER - 2}}  {order}").truncate(_NUMBER + self._room, ellipsis=True, pad=True)
        return Content.assemble(words, "  ", *(f"{one.heading:>{one.width}}" for one in self._columns())).stylize(_PALE)

    def _row(self, number: int, cost: LineCost | None, top: int, *, is_most: bool) -> Content:
        assert self._view is not None
        mark = _HAZARD if cost is not None and cost.hazards else _MOST if is_most else " "
        line = code(self._view.source_line(number))
        text = Content(line.strip() if self._by_cost else line).truncate(self._room, ellipsis=True, pad=True)
        head = Content(f"{number:>{_NUMBER - 2}}{mark} ")
        if cost is None:
            return Content.assemble(head, text).stylize(_PALE)
        colour = "$text-error bold" if cost.hazards else "$text-warning bold" if is_most else ""
        head = head.stylize(colour) if colour else head
        cells = (self._cell(one, cost, top) for one in self._columns())
        return Content.assemble(head, text, "  ", *cells)

    def _cell(self, column: _Column, cost: LineCost, top: int) -> Content:
        time = time_of(cost)
        words = {
            "time": duration(time) if time else "",
            "kernels": f"{cost.kernels:,}" if cost.kernels else "",
            "copies": f"{cost.copies:,}" if cost.copies else "",
            "bytes": size(cost.copied_bytes) if cost.copies else "",
            "waits": f"{cost.waits:,}" if cost.waits else "",
            "waited": duration(cost.wait_ns) if cost.wait_ns else "",
            "memory": size(cost.allocated_bytes) if cost.allocated_bytes else "",
        }
        if not column.heading:
            return Content.assemble(" ", (f"{bar(time, top, column.width - 1):<{column.width - 1}}", "$primary"))
        return Content(f"{words[column.heading]:>{column.width}}")

    @on(OptionList.OptionHighlighted)
    def _tell(self) -> None:
        """The cost of the line with the cursor, in words."""
        if self._view is None:
            return
        cost = next((one for one in self._view.run.lines if one.line == self._line), None)
        if not self._view.run.lines:
            words = "No line of this file did anything on a device."
        elif cost is None:
            words = "This line did nothing on a device."
        else:
            words = cost_in_words(cost, self._view.run.times, calls=len(self._view.cases))
        self._words.update(words.replace(f"{self._view.file_name}:", "line "))

    @property
    def _line(self) -> int | None:
        """The line with the cursor."""
        at = self.list.highlighted
        return self.line_at(at) if at is not None else None

    def line_at(self, position: int) -> int | None:
        """The line that a row shows."""
        return int(self.list.get_option_at_index(position).id or 0)

    def action_sort(self) -> None:
        """By cost, or as in the file; the cursor stays on its line."""
        self._by_cost = not self._by_cost
        self._draw(self._line)


def time_of(cost: LineCost) -> int:
    """What lines are sorted by, in nanoseconds: work on devices, or waits beyond it."""
    return max(cost.kernel_ns + cost.copy_ns, cost.wait_ns)

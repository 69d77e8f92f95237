"""The tab of costs by line."""

from __future__ import annotations

from textual import events, on
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from gpututor.app.commands import screen_bindings
from gpututor.app.editor.line_costs import all_calls, cost_in_words
from gpututor.app.trace_view.model import RunView, code
from gpututor.app.trace_view.tabs import ListTab
from gpututor.app.widgets.base import PlainText
from gpututor.grading.recording import LineCost
from gpututor.trace.formatting import bar, duration, size

_PALE = "$foreground-muted"
_MOST, _HAZARD = "●", "!"
_LEGEND = f"{_MOST} costs most   {_HAZARD} hazard   memory: all allocated"
_NUMBER, _BAR = 6, 8


_COLUMNS = {
    "time": (8, 0),
    "": (_BAR, 90),
    "kernels": (8, 0),
    "copies": (7, 0),
    "bytes": (10, 0),
    "waits": (6, 0),
    "waited": (8, 100),
    "memory": (10, 90),
}
"""Heading of each column, its width, and the width that the tab needs to show it."""


class LinesTab(ListTab):
    """A table of lines, by cost or as in the file."""

    BINDINGS = screen_bindings("lines", "order")
    KEYS = "lines"

    def __init__(self) -> None:
        super().__init__()
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
            return  # only the traces are new, and the costs do not come from them
        self._view = view
        self._draw()

    def on_resize(self, event: events.Resize) -> None:
        if self._width != self._drawn_width:
            self._draw()

    @property
    def _width(self) -> int:
        return self.list.scrollable_content_region.width or self.size.width

    def _draw(self, line: int | None = None) -> None:
        """Fill the list, and put the cursor on `line`, or else on the line that costs most."""
        if self._view is None or not self._width:
            return
        self._drawn_width = self._width
        costs = {cost.line: cost for cost in self._view.run.lines}
        lines = sorted(costs, key=lambda number: (-time_of(costs[number]), number))
        top = time_of(costs[lines[0]]) if lines else 0
        most = lines[0] if top else None
        if not self._by_cost:
            lines = list(range(1, len(self._view.source_lines) + 1)) if self._view.source is not None else sorted(lines)
        self._head.update(self._heading())
        self.list.set_options(
            Option(self._row(number, costs.get(number), max(top, 1), is_most=number == most), id=str(number))
            for number in lines
        )
        target = line if line in lines else most
        self.list.highlighted = lines.index(target) if target in lines else (0 if lines else None)
        self._describe()

    def _columns(self) -> dict[str, int]:
        """Return the headings and widths of the columns that the tab is wide enough for."""
        return {heading: width for heading, (width, needed) in _COLUMNS.items() if self._width >= needed}

    @property
    def _code_width(self) -> int:
        return max(8, self._width - _NUMBER - 2 - sum(self._columns().values()))

    def _heading(self) -> Content:
        assert self._view is not None
        order = "by time" if self._by_cost else "as in the file"
        if (calls := len(self._view.cases)) > 1:
            order = f"{all_calls(calls)}, {order}"
        words = Content(f"{'line':>{_NUMBER - 2}}  {order}").truncate(
            _NUMBER + self._code_width, ellipsis=True, pad=True
        )
        return Content.assemble(
            words, "  ", *(f"{heading:>{width}}" for heading, width in self._columns().items())
        ).stylize(_PALE)

    def _row(self, number: int, cost: LineCost | None, top: int, *, is_most: bool) -> Content:
        assert self._view is not None
        mark = _HAZARD if cost is not None and cost.hazards else _MOST if is_most else " "
        line = code(self._view.source_line(number))
        text = Content(line.strip() if self._by_cost else line).truncate(self._code_width, ellipsis=True, pad=True)
        head = Content(f"{number:>{_NUMBER - 2}}{mark} ")
        if cost is None:
            return Content.assemble(head, text).stylize(_PALE)
        color = "$text-error bold" if cost.hazards else "$text-warning bold" if is_most else ""
        head = head.stylize(color) if color else head
        time = time_of(cost)
        cells = {
            "time": duration(time) if time else "",
            "kernels": f"{cost.kernels:,}" if cost.kernels else "",
            "copies": f"{cost.copies:,}" if cost.copies else "",
            "bytes": size(cost.copied_bytes) if cost.copies else "",
            "waits": f"{cost.waits:,}" if cost.waits else "",
            "waited": duration(cost.wait_ns) if cost.wait_ns else "",
            "memory": size(cost.allocated_bytes) if cost.allocated_bytes else "",
        }
        drawn = Content(f" {bar(time, top, _BAR - 1):<{_BAR - 1}}").stylize("$primary")
        columns = self._columns().items()
        row = (f"{cells[heading]:>{width}}" if heading else drawn for heading, width in columns)
        return Content.assemble(head, text, "  ", *row)

    @on(OptionList.OptionHighlighted)
    def _describe(self) -> None:
        if self._view is None:
            return
        cost = next((cost for cost in self._view.run.lines if cost.line == self._line), None)
        if not self._view.run.lines:
            words = "No line of this file did anything on a device."
        elif cost is None:
            words = "This line did nothing on a device."
        else:
            words = cost_in_words(cost, self._view.run.times, calls=len(self._view.cases))
        self._words.update(words.replace(f"{self._view.file_name}:", "line "))

    @property
    def _line(self) -> int | None:
        at = self.list.highlighted
        return self.line_at(at) if at is not None else None

    def line_at(self, position: int) -> int | None:
        return int(self.list.get_option_at_index(position).id or 0)

    def action_order(self) -> None:
        """Change the order; the cursor stays on its line."""
        self._by_cost = not self._by_cost
        self._draw(self._line)


def time_of(cost: LineCost) -> int:
    """Return the cost by which lines are sorted, in nanoseconds: work on devices, or waits if they are longer."""
    return max(cost.kernel_ns + cost.copy_ns, cost.wait_ns)

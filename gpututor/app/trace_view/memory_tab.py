"""The tab of memory over time: a curve, its peak, and the lines that hold memory."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from textual.content import Content
from textual.widget import Widget

from gpututor.app.commands import screen_bindings
from gpututor.app.messages import LineChosen
from gpututor.app.trace_view.lanes import TimeWindow, ticks
from gpututor.app.trace_view.model import code_at, line_of, place_words
from gpututor.grading.report_text import count
from gpututor.text import escape_control_chars
from gpututor.trace.formatting import area, bar, duration, share, size

if TYPE_CHECKING:
    from gpututor.app.trace_view.model import RunView
    from gpututor.trace.memory import LiveAllocation, MemoryReading, MemoryTimeline

_LABELS = 9
"""Columns of the sizes at the left."""
_BAR = 8
_AXES, _HIGHEST = 3, 14
"""Lines below a curve, and most lines of the curve itself."""
_PALE = "$foreground-muted"
_MUCH = 0.7
"""Share of the peak: a curve that never goes below it is not drawn from zero."""
_NEAR_FULL = 0.5
"""Share of the device's memory: if the peak reaches it, the curve's scale ends at all of that memory."""


class MemoryTab(Widget, can_focus=True):
    """A device's memory as a curve; keys read it and go from device to device."""

    KEYS = "memory"
    BINDINGS = screen_bindings("memory")

    def __init__(self) -> None:
        super().__init__()
        self._view: RunView | None = None
        self._curves: list[tuple[str, MemoryTimeline]] = []
        self._chosen = 0
        self._cursor: MemoryReading | None = None

    def show(self, view: RunView) -> None:
        """Draw the memory of a call; the cursor is at the peak."""
        self._view = view
        figures = view.loaded.figures if view.loaded is not None else ()
        self._curves = [
            (escape_control_chars(f"{process.name} {curve.device}").strip(), curve)
            for process in figures
            for curve in process.curves
        ]
        self._chosen = max(range(len(self._curves)), key=lambda at: self._curves[at][1].peak_bytes, default=0)
        self._cursor = self._curves[self._chosen][1].peak if self._curves else None
        self.refresh()

    def render(self) -> Content:
        view = self._view
        if view is None or view.loaded is None:
            return Content("Reading what was recorded …")
        if not self._curves or self._cursor is None:
            words = ["No memory of a device was used in this call.", *view.loaded.missing]
            return Content("\n".join(words))
        name, curve = self._curves[self._chosen]
        width, height = max(self.size.width, 30), self.size.height
        drawing = _Drawing(view, name, curve, self._cursor, width)
        lines = [*drawing.head(), *self._others(width)]
        left = height - len(lines) - _AXES
        lines += drawing.chart(min(_HIGHEST, max(3, left - max(len(drawing.holders()) + 1, left // 2))))
        lines += drawing.reading(max(1, height - len(lines)))
        return Content("\n").join(line.truncate(width, ellipsis=True) for line in lines)

    def _others(self, width: int) -> list[Content]:
        """List the devices that are not drawn, in a line."""
        if len(self._curves) < 2:
            return []
        curves = (curve for at, curve in enumerate(self._curves) if at != self._chosen)
        words = [f"{name} {size(curve.peak_bytes)}" for name, curve in curves]
        return [Content(f"Peaks of the others (↑↓ shows them): {', '.join(words)}").stylize(_PALE)]

    def action_read(self, by: int) -> None:
        """Move the cursor by a column."""
        if self._cursor is None:
            return
        curve, columns = self._curves[self._chosen][1], max(self.size.width, 30) - _LABELS - 2
        column = curve.column_of(self._cursor.moment, columns) + by
        if 0 <= column < columns:
            self._read(curve.highest(columns)[column])

    def action_step(self, by: int) -> None:
        """Move the cursor to the next or previous change."""
        if self._cursor is not None:
            curve = self._curves[self._chosen][1]
            self._read(curve.reading(min(max(self._cursor.number + by, -1), curve.last.number)))

    def action_go(self, where: str) -> None:
        if self._cursor is not None:
            curve = self._curves[self._chosen][1]
            self._read({"begin": curve.reading(-1), "end": curve.last}.get(where, curve.peak))

    def action_device(self, by: int) -> None:
        if self._curves:
            self._chosen = (self._chosen + by) % len(self._curves)
            self._read(self._curves[self._chosen][1].peak)

    def action_line(self) -> None:
        """Go to the line of the last allocation or free."""
        if self._cursor is None or self._view is None:
            return
        change = self._curves[self._chosen][1].last_change(self._cursor.number)
        line = line_of(change.place, self._view.file_name) if change else None
        if line is None:
            self.app.bell()
        else:
            self.post_message(LineChosen(line))

    def _read(self, cursor: MemoryReading) -> None:
        self._cursor = cursor
        self.refresh()


class _Drawing:
    """A curve in lines of text."""

    def __init__(self, view: RunView, name: str, curve: MemoryTimeline, cursor: MemoryReading, width: int) -> None:
        self._view, self._name, self._curve, self._cursor, self._width = view, name, curve, cursor, width
        self._columns = width - _LABELS - 2
        capacity = view.run.memory_bytes
        self._capacity = capacity
        near = bool(capacity) and (curve.peak_bytes >= _NEAR_FULL * capacity or bool(curve.refused))
        self._top = max(capacity if near else 0, curve.peak_bytes)
        least = curve.least_bytes
        # If most of the memory is held all the time, show only the part that changes.
        self._bottom = max(0, least - (self._top - least) // 4) if least > _MUCH * self._top else 0

    def head(self) -> list[Content]:
        """Describe the peak and the allocations that failed."""
        curve, view = self._curve, self._view
        peak = Content.assemble((f"{self._name}  ", "bold"), f"peak {size(curve.peak_bytes)}")
        if self._capacity:
            part = curve.peak_bytes / self._capacity
            peak += Content(f", {share(part) if part >= 0.001 else 'under 0.1 %'} of {size(self._capacity)}")
        if curve.peak_place.line is not None:
            peak += Content(f", at {place_words(curve.peak_place, view.file_name)}")
            text = code_at(view, curve.peak_place)
            peak += Content(f": {text}").stylize(_PALE) if text else Content("")
        lines = [peak]
        for place, group in groupby(curve.refused, key=lambda failure: failure.place):
            first, *more = group
            times = f" ({len(more) + 1} times)" if more else ""
            words = (
                f"✗ Out of memory at {place_words(place, view.file_name)}{times}: "
                f"{size(first.size_bytes)} asked for, {size(first.allocated)} allocated"
            )
            lines.append(Content(words).stylize("$text-error bold"))
        return lines[:3]

    def chart(self, height: int) -> list[Content]:
        """Draw the curve with its axes."""
        curve, columns = self._curve, self._columns
        at = curve.column_of(self._cursor.moment, columns)
        highest = [reading.allocated - self._bottom for reading in curve.highest(columns)]
        lines = []
        for level, row in enumerate(area(highest, self._top - self._bottom, height)):
            cursor = row[at] if row[at] != " " else "│"
            cells = Content.assemble(
                (row[:at], "$primary"), (cursor, "reverse" if row[at] != " " else "bold"), (row[at + 1 :], "$primary")
            )
            lines.append(Content.assemble((f"{self._label(level, height):>{_LABELS}} ┤", _PALE), cells))
        window = TimeWindow.whole(curve.begin, curve.end, columns)
        axis, labels = ["─"] * columns, [" "] * columns
        for tick in ticks(window) if curve.timed else ():
            axis[tick.column] = "┬"
            if tick.column + len(tick.label) <= columns:
                labels[tick.column : tick.column + len(tick.label)] = tick.label
        bottom, corner = (size(self._bottom), "≈") if self._bottom else ("0", "└")
        lines.append(Content(f"{bottom:>{_LABELS}} {corner}{''.join(axis)}").stylize(_PALE))
        note = "not from 0" if self._bottom else ""
        lines.append(Content(f"{note:{_LABELS + 2}}{''.join(labels)}".rstrip()).stylize(_PALE))
        return [*lines, self._marks(at)]

    def _label(self, level: int, height: int) -> str:
        """Return the size at the upper edge of a line; empty except at the top and about half way down."""
        if level == 0:
            return size(self._top)
        middle = self._bottom + (self._top - self._bottom) * (height - level) / height
        return size(middle) if height >= 6 and level == height // 2 else ""

    def _marks(self, cursor: int) -> Content:
        """Mark the peak, failed allocations and the cursor, with words where there is space."""
        curve, columns = self._curve, self._columns
        marks = [(cursor, "↑", "")]
        marks += [(curve.column_of(failure.at, columns), "✗", "out of memory") for failure in curve.refused]
        marks += [(curve.column_of(curve.peak_at, columns), "▲", "peak")]
        line = [" "] * columns
        for column, glyph, _ in marks:
            line[column] = glyph
        for column, _, word in reversed(marks):
            after, before = range(column + 1, column + len(word) + 3), range(column - len(word) - 1, column)
            if word and all(at >= columns or line[at] == " " for at in after) and after.stop - 2 < columns:
                line[column + 2 : column + 2 + len(word)] = word
            elif word and before.start >= 0 and all(line[at] == " " for at in before):
                line[before.start : column - 1] = word
        return Content(f"{'':{_LABELS + 2}}{''.join(line).rstrip()}")

    def reading(self, rows: int) -> list[Content]:
        """Describe the memory at the cursor and the lines that hold it, in at most `rows` rows."""
        curve, number = self._curve, self._cursor.number
        when = f"At {duration(self._cursor.moment - curve.begin)}" if curve.timed else f"After event {number + 1}"
        is_peak = number == curve.peak.number
        head = Content.assemble(
            (f"{when}{', the peak' if is_peak else ''}: {size(self._cursor.allocated)}", "bold"), (self._did(), _PALE)
        )
        holders = self.holders()
        if len(holders) > rows - 1:
            shown = holders[: max(0, rows - 2)]
            return [head, *shown, Content(f"  … and {count(len(holders) - len(shown), 'more line')}").stylize(_PALE)]
        return [head, *holders]

    def holders(self) -> list[Content]:
        """Return a row for each line that holds memory at the cursor, the largest amount first."""
        curve, number = self._curve, self._cursor.number
        rows = [self._held_row(allocation) for allocation in curve.held(number)]
        older = curve.older(number)
        return [*rows, self._row(older, "", "from before the call", "")] if older else rows

    def _did(self) -> str:
        """Describe the last allocation or free."""
        change = self._curve.last_change(self._cursor.number)
        if change is None:
            return ", before anything was allocated"
        did = "allocated" if change.taken else "freed"
        return f", {place_words(change.place, self._view.file_name)} {did} {size(change.size_bytes)}"

    def _held_row(self, held: LiveAllocation) -> Content:
        place = place_words(held.place, self._view.file_name)
        return self._row(held.size_bytes, f"{held.count:,} ×", place, code_at(self._view, held.place))

    def _row(self, size_bytes: int, times: str, place: str, text: str) -> Content:
        filled = bar(size_bytes, max(self._cursor.allocated, 1), _BAR)
        return Content.assemble(
            f"{size(size_bytes):>{_LABELS}} ",
            (f"{filled:<{_BAR}}", "$primary"),
            f" {times:>6}  {place:<9}",
            (f" {text}", _PALE),
        )

"""Lanes of the trace view as cells, and the window of time that they show.

The height of a bar is the busy share of its cell's time. The ends of long bars are drawn to an eighth of a cell.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import count
from typing import NamedTuple

import numpy as np
from rich.cells import get_character_cell_size

from gpututor.text import escape_control_chars
from gpututor.trace.formatting import size
from gpututor.trace.text import short_name
from gpututor.trace.timeline import Lane, LaneCells, LaneKind, SpanKind, TimelineLayout, edges_of

_UNITS = (("s", 1_000_000_000), ("ms", 1_000_000), ("µs", 1_000), ("ns", 1))
_BETWEEN_LABELS = 3


@dataclass(frozen=True)
class TimeWindow:
    """A part of the time from `least` to `most`, in nanoseconds; a column shows at least one nanosecond."""

    least: int
    most: int
    columns: int
    begin: int
    end: int

    @classmethod
    def whole(cls, least: int, most: int, columns: int) -> TimeWindow:
        """Return the window of all the time."""
        columns = max(columns, 1)
        most = max(most, least + columns)
        return cls(least, most, columns, least, most)

    @property
    def span(self) -> int:
        return self.end - self.begin

    @property
    def middle(self) -> int:
        return (self.begin + self.end) // 2

    @property
    def is_whole(self) -> bool:
        return self.begin == self.least and self.end == self.most

    def resized(self, columns: int) -> TimeWindow:
        """Return the same time in another number of columns."""
        whole = TimeWindow.whole(self.least, self.most, columns)
        return whole if self.is_whole else whole._at(self.begin, self.span)

    def zoomed(self, factor: float, fixed: int) -> TimeWindow:
        """Return `factor` times as much time; the moment `fixed` keeps its column."""
        span = self._possible(round(self.span * factor))
        share = (fixed - self.begin) / self.span
        return self._at(round(fixed - share * span), span)

    def panned(self, share: float) -> TimeWindow:
        """Return the window moved by a share of its span; to the right if `share` is positive."""
        return self._at(self.begin + round(self.span * share), self.span)

    def showing(self, start: int, end: int) -> TimeWindow:
        """Return the window itself if any of this time is visible; else one with its start in the first third."""
        if start < self.end and max(end, start + 1) > self.begin:
            return self
        return self._at(start - self.span // 3, self.span)

    def zoomed_to(self, start: int, end: int) -> TimeWindow:
        """Return a window in which this time takes a third."""
        span = self._possible(3 * max(end - start, 1))
        return self._at((start + end - span) // 2, span)

    def column(self, moment: int) -> int:
        """Return the column of a moment, which may lie outside."""
        return (moment - self.begin) * self.columns // self.span

    def moment(self, column: int) -> int:
        """Return the middle of a column."""
        return self.begin + (2 * column + 1) * self.span // (2 * self.columns)

    def _possible(self, span: int) -> int:
        return min(max(span, self.columns), self.most - self.least)

    def _at(self, begin: int, span: int) -> TimeWindow:
        span = self._possible(span)
        begin = min(max(begin, self.least), self.most - span)
        return replace(self, begin=begin, end=begin + span)


@dataclass(frozen=True)
class Tick:
    """A round moment on the axis."""

    column: int
    label: str


def ticks(window: TimeWindow) -> list[Tick]:
    """Return round times, counted from `window.least`, as close to each other as their labels allow."""
    begin, end = window.begin - window.least, window.end - window.least
    unit, worth = next(((unit, worth) for unit, worth in _UNITS if end >= worth), _UNITS[-1])

    def label(moment: int) -> str:
        digits = max(len(str(worth)) - len(str(step)), 0)
        return f"{moment / worth:,.{digits}f} {unit}" if moment else "0"

    for step in (factor * 10**power for power in count() for factor in (1, 2, 5)):
        longest = max(len(label(begin // step * step)), len(label(end)))
        if step * window.columns >= (longest + _BETWEEN_LABELS) * window.span:
            moments = range(-(-begin // step) * step, end, step)
            return [Tick(window.column(moment + window.least), label(moment)) for moment in moments]
    raise AssertionError("some step is long enough")


ROLES = {
    SpanKind.KERNEL: "kernel",
    SpanKind.COLLECTIVE: "collective",
    SpanKind.COPY: "copy",
    SpanKind.WAIT: "wait",
    SpanKind.COMPUTE: "compute",
    SpanKind.HOST_COPY: "copy",
    SpanKind.LAUNCH: "launch",
    SpanKind.RANGE: "range",
    SpanKind.HAZARD: "hazard",
    SpanKind.OUT_OF_MEMORY: "hazard",
}
"""The style of each kind; see `styles/device.tcss`."""
LEGEND = (
    (SpanKind.KERNEL, "█", "kernel"),
    (SpanKind.COPY, "▒", "copy"),
    (SpanKind.COLLECTIVE, "▓", "collective"),
    (SpanKind.LAUNCH, "|", "launch"),
    (SpanKind.WAIT, "░", "host waits"),
    (SpanKind.COMPUTE, "▪", "on the CPU"),
    (SpanKind.RANGE, "─", "range"),
    (SpanKind.HAZARD, "!", "hazard"),
    (SpanKind.OUT_OF_MEMORY, "×", "out of memory"),
)
"""Kind, character and its meaning."""

_HEIGHTS = " ▁▂▃▄▅▆▇█"
_WIDTHS = " ▏▎▍▌▋▊▉█"
ARROWS = {LaneKind.TO_DEVICE: "→", LaneKind.TO_HOST: "←", LaneKind.BETWEEN: "↔"}
"""The characters of copies that are short compared with their column."""
_FULL = 0.985
_LEAST_LABEL = 6
"""Cells that a bar must have for a name to be written on it."""
_MOST_LABELS = 200


class Glyph(NamedTuple):
    """A cell as it is drawn."""

    character: str
    role: str
    """A key of the style; empty for none."""
    reverse: bool = False
    on_bar: bool = False
    """True for a letter of a name on a bar."""
    selected: bool = False


def draw(
    picture: TimelineLayout, lane: Lane, window: TimeWindow, selected: int = -1, grid: Iterable[int] = (), rows: int = 1
) -> list[list[Glyph]]:
    """Return the cells of a lane by row. `selected`: the span at the cursor. `grid`: columns of ticks."""
    cells = lane.visible(window.begin, window.end, window.columns)
    edges = edges_of(window.begin, window.end, window.columns)
    ticked = set(grid)
    drawn = []
    for above in range(rows - 1, -1, -1):
        glyphs = [Glyph("·", "grid") if column in ticked else Glyph(" ", "") for column in range(window.columns)]
        for column in np.flatnonzero(cells.count).tolist():
            place = (column, int(edges[column]), int(edges[column + 1]))
            glyphs[column] = _glyph(lane, cells, place, (above, rows)) or glyphs[column]
        drawn.append(glyphs)
    _label(picture, lane, window, cells, drawn[0])
    for column in np.flatnonzero(cells.hazard).tolist():
        missing = cells.kind[column] == SpanKind.OUT_OF_MEMORY
        for glyphs in drawn:
            glyphs[column] = Glyph("×" if missing else "!", "hazard", reverse=True)
    if selected >= 0:
        for column in columns_of(lane, selected, window):
            for glyphs in drawn:
                glyphs[column] = glyphs[column]._replace(selected=True)
    return drawn


def columns_of(lane: Lane, number: int, window: TimeWindow) -> range:
    """Return the columns that a span touches; none if it is outside of the window."""
    start, end = int(lane.start[number]), max(int(lane.end[number]), int(lane.start[number]) + 1)
    edges = edges_of(window.begin, window.end, window.columns)
    first = int(np.searchsorted(edges, start, side="right")) - 1
    last = int(np.searchsorted(edges, end)) - 1
    return range(max(first, 0), min(last, window.columns - 1) + 1)


def kinds_of(picture: TimelineLayout) -> set[SpanKind]:
    """Return the kinds of spans that a picture has, including hazards that belong to work."""
    kinds = {SpanKind(int(kind)) for lane in picture.lanes for kind in np.unique(lane.span)}
    if any((lane.hazard >= 0).any() for lane in picture.lanes):
        kinds.add(SpanKind.HAZARD)
    if SpanKind.HOST_COPY in kinds:
        kinds.add(SpanKind.COPY)
    return kinds


_CHARACTERS = {kind: character for kind, character, _ in LEGEND} | {SpanKind.HOST_COPY: "▒"}


def _glyph(lane: Lane, cells: LaneCells, place: tuple[int, int, int], part: tuple[int, int]) -> Glyph | None:
    """Return the cell at `place`: a column with its beginning and end. `part`: how many rows are below, of how many."""
    column = place[0]
    span = SpanKind(int(cells.kind[column]))
    if span is SpanKind.KERNEL:
        return _bar(lane, cells, place, part)
    if span in (SpanKind.COLLECTIVE, SpanKind.COPY) and float(cells.fill[column]) < 0.5:
        small = "▓" if span is SpanKind.COLLECTIVE else ARROWS.get(lane.kind, "▒")
        return Glyph(small, ROLES[span]) if part[0] == 0 else None
    if span is SpanKind.LAUNCH and cells.wait[column]:
        span = SpanKind.WAIT  # a wait, however short, matters more than the launches in its cell
    return Glyph(_CHARACTERS[span], ROLES[span])


def _bar(lane: Lane, cells: LaneCells, place: tuple[int, int, int], part: tuple[int, int]) -> Glyph | None:
    """Return a kernel's cell: its end if it is visible, else the busy share of the cell."""
    column, left, right = place
    fill, first = float(cells.fill[column]), int(cells.first[column])
    start, end = int(lane.start[first]), int(lane.end[first])
    cell = right - left
    if cells.count[column] == 1 and start <= left and end < right:
        return Glyph(_WIDTHS[max(1, round(8 * (end - left) / cell))], "kernel")
    if cells.count[column] == 1 and left < start and end >= right:
        # No characters fill a cell from the right: the one that fills the rest is drawn in reverse.
        eighths = min(7, round(8 * (start - left) / cell))
        return Glyph(_WIDTHS[eighths], "kernel", reverse=True) if eighths else Glyph("█", "kernel")
    if fill < _FULL:
        below, rows = part
        height = max(1, min(8 * rows - 1, round(8 * rows * fill))) - 8 * below
        return Glyph(_HEIGHTS[min(height, 8)], "kernel") if height > 0 else None
    # A thin line separates two long bars that touch.
    following = first + 1
    long = end - start >= 2 * cell and following < len(lane) and int(lane.end[following]) - end >= 2 * cell
    return Glyph("▉" if long and left < end <= right else "█", "kernel")


def _label(picture: TimelineLayout, lane: Lane, window: TimeWindow, cells: LaneCells, glyphs: list[Glyph]) -> None:
    """Write names on bars that are long enough."""
    seen = lane.between(window.begin, window.end)
    lengths = np.minimum(lane.end[seen], window.end) - np.maximum(lane.start[seen], window.begin)
    long = np.flatnonzero(lengths * window.columns >= _LEAST_LABEL * window.span)[:_MOST_LABELS] + seen.start
    for number in map(int, long):
        columns = columns_of(lane, number, window)
        inside = range(columns.start + 1, columns.stop - 1)
        kind = lane.span[number]
        if len(inside) < _LEAST_LABEL - 2 or any(cells.kind[at] != kind for at in columns):
            continue
        text = _cut(label_of(picture, lane, number), len(inside) - 2)
        if not text:
            continue
        for at, letter in zip(inside, f" {text} ", strict=False):
            glyphs[at] = Glyph(letter, ROLES[SpanKind(int(kind))], on_bar=True)


def label_of(picture: TimelineLayout, lane: Lane, number: int) -> str:
    """Return the name on a span: the operator, or the size of a copy."""
    rows, row = picture.rows(lane), int(lane.row[number])
    if lane.span[number] in (SpanKind.COPY, SpanKind.HOST_COPY):
        return size(int(rows.size[row]))
    name = " ".join(escape_control_chars(short_name(rows.names[rows.name[row]])).split())
    # A letter takes one cell: a wider one, or one without width, would move the cells to the right.
    return "".join(letter if get_character_cell_size(letter) == 1 else "?" for letter in name)


def _cut(text: str, room: int) -> str:
    """Return the text, its beginning with a mark, or nothing if there is too little space."""
    if len(text) <= room:
        return text
    return f"{text[: room - 1]}…" if room >= 5 else ""

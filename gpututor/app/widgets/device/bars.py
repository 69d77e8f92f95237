"""How a lane is drawn: a character and a role for each cell. What kind a cell is can be told without colours.

The height of a bar says how much of its cell's time is taken; the ends of long bars are drawn to an eighth of a cell.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from rich.cells import get_character_cell_size

from gpututor.app.widgets.device.window import Window
from gpututor.plain_text import visible
from gpututor.trace.event_words import short_name
from gpututor.trace.lanes import Cells, Lane, LaneKind, Span, edges_of
from gpututor.trace.picture import Picture
from gpututor.trace.units import size

ROLES = {
    Span.KERNEL: "kernel",
    Span.COLLECTIVE: "collective",
    Span.COPY: "copy",
    Span.WAIT: "wait",
    Span.COMPUTE: "compute",
    Span.HOST_COPY: "copy",
    Span.LAUNCH: "launch",
    Span.RANGE: "range",
    Span.HAZARD: "hazard",
    Span.OUT_OF_MEMORY: "hazard",
}
"""The colour of each kind; see `styles/device.tcss`."""
LEGEND = (
    (Span.KERNEL, "█", "kernel"),
    (Span.COPY, "▒", "copy"),
    (Span.COLLECTIVE, "▓", "collective"),
    (Span.LAUNCH, "|", "launch"),
    (Span.WAIT, "░", "host waits"),
    (Span.COMPUTE, "▪", "on the CPU"),
    (Span.RANGE, "─", "range"),
    (Span.HAZARD, "!", "hazard"),
    (Span.OUT_OF_MEMORY, "×", "out of memory"),
)
"""What the characters mean, for the kinds that a picture has."""

_HEIGHTS = " ▁▂▃▄▅▆▇█"
_WIDTHS = " ▏▎▍▌▋▊▉█"
ARROWS = {LaneKind.TO_DEVICE: "→", LaneKind.TO_HOST: "←", LaneKind.BETWEEN: "↔"}
"""How copies are drawn that are short beside their column."""
_FULL = 0.985
_LEAST_LABEL = 6
"""Cells that a bar must have for a name to be written on it."""
_MOST_LABELS = 200


@dataclass
class Glyph:
    """One cell as it is drawn."""

    character: str
    role: str
    """A key of the style; empty for nothing."""
    reverse: bool = False
    on_bar: bool = False
    """Whether it is a letter that stands on a bar."""
    selected: bool = False


def draw(
    picture: Picture, lane: Lane, window: Window, selected: int = -1, grid: Iterable[int] = (), rows: int = 1
) -> list[list[Glyph]]:
    """The cells of a lane, row by row from the top.

    `selected` is the number of the span under the cursor, `grid` are the columns of the ticks.
    """
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
        missing = cells.kind[column] == Span.OUT_OF_MEMORY
        for glyphs in drawn:
            glyphs[column] = Glyph("×" if missing else "!", "hazard", reverse=True)
    if selected >= 0:
        for column in columns_of(lane, selected, window):
            for glyphs in drawn:
                glyphs[column].selected = True
    return drawn


def columns_of(lane: Lane, number: int, window: Window) -> range:
    """The columns that a span touches; empty outside of the window."""
    start, end = int(lane.start[number]), max(int(lane.end[number]), int(lane.start[number]) + 1)
    edges = edges_of(window.begin, window.end, window.columns)
    first = int(np.searchsorted(edges, start, side="right")) - 1
    last = int(np.searchsorted(edges, end)) - 1
    return range(max(first, 0), min(last, window.columns - 1) + 1)


def kinds_of(picture: Picture) -> set[Span]:
    """The kinds of spans that a picture has; hazards that belong to work included."""
    found = {Span(int(kind)) for lane in picture.lanes for kind in np.unique(lane.span)}
    if any((lane.hazard >= 0).any() for lane in picture.lanes):
        found.add(Span.HAZARD)
    if Span.HOST_COPY in found:
        found.add(Span.COPY)
    return found


def _glyph(lane: Lane, cells: Cells, place: tuple[int, int, int], part: tuple[int, int]) -> Glyph | None:
    """The cell at `place`, a column with its beginning and end; `part` is how many rows are below, of how many."""
    column = place[0]
    span = Span(int(cells.kind[column]))
    role = ROLES[span]
    fill = float(cells.fill[column])
    match span:
        case Span.KERNEL:
            return _bar(lane, cells, place, part)
        case Span.COLLECTIVE | Span.COPY if fill < 0.5:
            small = "▓" if span is Span.COLLECTIVE else ARROWS.get(lane.kind, "▒")
            return Glyph(small, role) if part[0] == 0 else None
        case Span.COLLECTIVE:
            return Glyph("▓", role)
        case Span.COPY | Span.HOST_COPY:
            return Glyph("▒", role)
        case Span.WAIT:
            return Glyph("░", role)
        case Span.COMPUTE:
            return Glyph("▪", role)
        case Span.LAUNCH if cells.wait[column]:
            # However short: a wait tells more than the launches around it.
            return Glyph("░", ROLES[Span.WAIT])
        case Span.LAUNCH:
            return Glyph("|", role)
        case Span.RANGE:
            return Glyph("─", role)
        case Span.HAZARD:
            return Glyph("!", role)
        case _:
            return Glyph("×", role)


def _bar(lane: Lane, cells: Cells, place: tuple[int, int, int], part: tuple[int, int]) -> Glyph | None:
    """A kernel's cell: its ends where they are seen, else how much of the cell is taken."""
    column, left, right = place
    fill, first = float(cells.fill[column]), int(cells.first[column])
    start, end = int(lane.start[first]), int(lane.end[first])
    cell = right - left
    if cells.count[column] == 1 and start <= left and end < right:
        return Glyph(_WIDTHS[max(1, round(8 * (end - left) / cell))], "kernel")
    if cells.count[column] == 1 and left < start and end >= right:
        # There are no characters that fill a cell from the right: one that fills the rest is drawn in reverse.
        eighths = min(7, round(8 * (start - left) / cell))
        return Glyph(_WIDTHS[eighths], "kernel", reverse=True) if eighths else Glyph("█", "kernel")
    if fill < _FULL:
        below, rows = part
        height = max(1, min(8 * rows - 1, round(8 * rows * fill))) - 8 * below
        return Glyph(_HEIGHTS[min(height, 8)], "kernel") if height > 0 else None
    # A thin line tells two long bars apart that touch each other.
    following = first + 1
    long = end - start >= 2 * cell and following < len(lane) and int(lane.end[following]) - end >= 2 * cell
    return Glyph("▉" if long and left < end <= right else "█", "kernel")


def _label(picture: Picture, lane: Lane, window: Window, cells: Cells, glyphs: list[Glyph]) -> None:
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
            glyphs[at] = Glyph(letter, ROLES[Span(int(kind))], on_bar=True)


def label_of(picture: Picture, lane: Lane, number: int) -> str:
    """What is written on a span: the operator, or how much is copied."""
    rows, row = picture.rows(lane), int(lane.row[number])
    if lane.span[number] in (Span.COPY, Span.HOST_COPY):
        return size(int(rows.size[row]))
    name = " ".join(visible(short_name(rows.names[rows.name[row]])).split())
    # A letter takes one cell: what is wider, or has no width, would move all that is right of it.
    return "".join(letter if get_character_cell_size(letter) == 1 else "?" for letter in name)


def _cut(text: str, room: int) -> str:
    """The text, or its beginning with a mark, or nothing where that would say nothing."""
    if len(text) <= room:
        return text
    return f"{text[: room - 1]}…" if room >= 5 else ""

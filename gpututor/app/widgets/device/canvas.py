"""Lanes with a time axis above them, drawn with a cursor on one event."""

from __future__ import annotations

from itertools import groupby
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

from gpututor.app.widgets.device.bars import LEGEND, ROLES, Glyph, columns_of, draw, kinds_of
from gpututor.app.widgets.device.window import Window, ticks
from gpututor.plain_text import visible
from gpututor.trace.lanes import Lane, LaneKind, Span
from gpututor.trace.picture import Picture
from gpututor.trace.units import share

AXIS_ROWS = 2
MOST_LANE_ROWS = 3
_SHARES_FROM = 90
"""Columns of the widget from which on there is room to say how busy each lane is."""
_SHARE_WIDTH = 6
_MOST_STOPS = 1000
"""Among which a hazard is looked for, to begin with."""


class Canvas(Widget, can_focus=True):
    """Draws a part of a picture; the classes above it move the cursor."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"chart--{role}" for role in (*ROLES.values(), "axis", "grid", "name", "current", "cursor", "selected", "mark")
    }

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.picture: Picture | None = None
        self.lane_number = 0
        self.number = 0
        """The event under the cursor, by its place in the lane."""
        self.window = Window.whole(0, 1, 1)
        self.first_lane = 0
        self._drawn: dict[int, Strip] = {}
        self._styles: dict[str, Style] = {}
        self._kinds: set[Span] = set()

    # What is shown

    def show(self, picture: Picture) -> None:
        """Show another picture, whole, with the cursor at its longest event."""
        self.picture = picture
        self._kinds = kinds_of(picture)
        self.first_lane = 0
        self.window = Window.whole(picture.begin, picture.finish, self.columns)
        self.lane_number, self.number = _most_telling(picture)
        self.redraw()

    @property
    def lane(self) -> Lane:
        assert self.picture is not None
        return self.picture.lanes[self.lane_number]

    def height_for(self, lane_rows: int) -> int:
        """The height with which all lanes are seen, each with so many rows: one or two of bars, the third is empty."""
        lanes = len(self.picture.lanes) if self.picture else 0
        return AXIS_ROWS + lane_rows * lanes + 1

    @property
    def names_width(self) -> int:
        return 3 + max((len(lane.name) for lane in self.picture.lanes), default=0) if self.picture else 0

    @property
    def columns(self) -> int:
        shares = _SHARE_WIDTH if self.size.width >= _SHARES_FROM else 0
        return max(self.size.width - self.names_width - shares - 1, 8)

    @property
    def lane_rows(self) -> int:
        """Rows of one lane, with what is empty below it."""
        return next((rows for rows in (MOST_LANE_ROWS, 2) if self.size.height >= self.height_for(rows)), 1)

    @property
    def _lanes_shown(self) -> int:
        return max((self.size.height - AXIS_ROWS - 1) // self.lane_rows, 1)

    def on_resize(self, event: events.Resize) -> None:
        if self.picture is not None:
            self.window = self.window.resized(self.columns)
            self.redraw()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return self.height_for(1)

    # Drawing

    def redraw(self) -> None:
        self._drawn.clear()
        shown = self._lanes_shown
        lanes = len(self.picture.lanes) if self.picture else 0
        lowest, highest = self.lane_number - shown + 1, self.lane_number
        self.first_lane = min(max(min(self.first_lane, lanes - shown), lowest, 0), highest)
        self.refresh()

    def notify_style_update(self) -> None:
        self._drawn.clear()
        self._styles.clear()
        super().notify_style_update()

    def render_line(self, y: int) -> Strip:
        if self.picture is None or not self.picture.lanes:
            return Strip.blank(self.size.width, self._style(""))
        if y not in self._drawn:
            self._drawn[y] = self._line(y).adjust_cell_length(self.size.width, self._style(""))
        return self._drawn[y]

    def _line(self, y: int) -> Strip:
        assert self.picture is not None
        if y == 0:
            return self._axis()
        if y == 1:
            return self._cursor()
        if y == self.size.height - 1:
            return self._legend()
        place, row = divmod(y - AXIS_ROWS, self.lane_rows)
        number = self.first_lane + place
        if place >= self._lanes_shown or number >= len(self.picture.lanes):
            return Strip([])
        if row and row == self.lane_rows - 1:
            return self._gap()
        if row == 0:
            for further, strip in enumerate(self._lane(number, max(self.lane_rows - 1, 1))):
                self._drawn[y + further] = strip.adjust_cell_length(self.size.width, self._style(""))
        elif y not in self._drawn:
            self._line(y - row)
        return self._drawn[y]

    def _axis(self) -> Strip:
        characters = [" "] * (self.columns + 1)
        for tick in ticks(self.window):
            if tick.column + len(tick.label) <= len(characters):
                characters[tick.column : tick.column + len(tick.label)] = tick.label
        return Strip([self._segment(" " * self.names_width), self._segment("".join(characters), "axis")])

    def _cursor(self) -> Strip:
        """The rule below the labels, with the cursor's event marked on it."""
        rule = ["─"] * self.columns
        for tick in ticks(self.window):
            rule[tick.column] = "┬"
        columns = columns_of(self.lane, self.number, self.window)
        parts = [self._segment(" " * self.names_width)]
        if not len(columns):
            return Strip([*parts, self._segment("".join(rule), "axis")])
        mark = "▼" if len(columns) == 1 else f"┝{'━' * (len(columns) - 2)}┥"
        parts.append(self._segment("".join(rule[: columns.start]), "axis"))
        parts.append(self._segment(mark, "cursor"))
        parts.append(self._segment("".join(rule[columns.stop :]), "axis"))
        return Strip(parts)

    def _lane(self, number: int, rows: int) -> list[Strip]:
        assert self.picture is not None
        lane = self.picture.lanes[number]
        current = number == self.lane_number
        mark = "▸" if current else " "
        name = f"{mark} {visible(lane.name)}".ljust(self.names_width)
        grid = [tick.column for tick in ticks(self.window)]
        first, *others = draw(self.picture, lane, self.window, self.number if current else -1, grid, rows)
        parts = [self._segment(name, "current" if current else "name"), *self._bars(first)]
        if self.size.width >= _SHARES_FROM:
            busy = lane.busy(self.window.begin, self.window.end)
            words = share(busy) if lane.kind is not LaneKind.RANGES else ""
            parts.append(self._segment(words.rjust(_SHARE_WIDTH), "name"))
        blank = self._segment(" " * self.names_width)
        return [Strip(parts), *(Strip([blank, *self._bars(glyphs)]) for glyphs in others)]

    def _gap(self) -> Strip:
        characters = [" "] * self.columns
        for tick in ticks(self.window):
            characters[tick.column] = "·"
        return Strip([self._segment(" " * self.names_width), self._segment("".join(characters), "grid")])

    def _bars(self, glyphs: list[Glyph]) -> list[Segment]:
        parts = []
        for (role, reverse, on_bar, selected), run in groupby(glyphs, key=_look):
            text = "".join(glyph.character for glyph in run)
            style = self._style(role)
            if selected and role not in ("grid", "hazard"):
                style += self._style("selected")
            if on_bar or reverse:
                style += Style(reverse=True)
            parts.append(Segment(text, style))
        return parts

    def _legend(self) -> Strip:
        """What the characters mean; on the right what else there is."""
        assert self.picture is not None
        parts = [self._segment(" ")]
        room = self.size.width - 2
        hidden = len(self.picture.lanes) - self._lanes_shown
        more = f"↕ {hidden} more {'lane' if hidden == 1 else 'lanes'}" if hidden > 0 else ""
        for kind, character, words in LEGEND:
            if kind in self._kinds and len(words) + 4 <= room - len(more):
                room -= len(words) + 4
                parts += [self._segment(character, ROLES[kind]), self._segment(f" {words}  ", "axis")]
        if more:
            parts += [self._segment(" " * (room - len(more) + 1)), self._segment(more, "mark")]
        return Strip(parts)

    def _segment(self, text: str, role: str = "") -> Segment:
        return Segment(text, self._style(role))

    def _style(self, role: str) -> Style:
        # Textual finds the widget's own style anew each time, in a third of a millisecond.
        if role not in self._styles:
            self._styles[role] = self.get_component_rich_style(f"chart--{role}") if role else self.rich_style
        return self._styles[role]


def _look(glyph: Glyph) -> tuple[str, bool, bool, bool]:
    return glyph.role, glyph.reverse, glyph.on_bar, glyph.selected


def _most_telling(picture: Picture) -> tuple[int, int]:
    """Where to begin: a hazard, rather one that a line is to blame for; else the longest work; else the first event."""
    hazards = [
        (bool(picture.rows(lane).line[lane.row[number]]), place, number)
        for _, place, number in picture.stops.tolist()[:_MOST_STOPS]
        if (lane := picture.lanes[place]).hazard[number] >= 0 or lane.span[number] == Span.OUT_OF_MEMORY
    ]
    if hazards:
        return next((hazard for hazard in hazards if hazard[0]), hazards[0])[1:]
    best = (-1, 0, 0)
    for place, lane in enumerate(picture.lanes):
        if lane.kind in (LaneKind.HOST, LaneKind.RANGES):
            continue
        longest = int((lane.end - lane.start).argmax())
        best = max(best, (int(lane.end[longest] - lane.start[longest]), place, longest))
    return best[1:]

"""A chart of lanes below a time axis: drawing, a cursor on one event, keys that move, zoom and pan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from gpututor.app.commands import screen_bindings
from gpututor.app.trace_view.lanes import LEGEND, ROLES, Glyph, TimeWindow, columns_of, draw, kinds_of, ticks
from gpututor.text import escape_control_chars
from gpututor.trace.formatting import share
from gpututor.trace.timeline import Lane, LaneKind, SpanKind, TimelineLayout

AXIS_ROWS = 2
MOST_LANE_ROWS = 3
_SHARES_FROM = 90
"""Columns that the widget needs to show how busy each lane is."""
_SHARE_WIDTH = 6
_MOST_STOPS = 1000
"""The stops to search for a hazard when a picture is shown."""
ZOOM = 0.5
_PAN = 0.5


class Chart(Widget, can_focus=True):
    """A part of a picture; the arrow keys move from event to event and from lane to lane."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"chart--{role}" for role in (*ROLES.values(), "axis", "grid", "name", "current", "cursor", "selected", "mark")
    }

    BINDINGS = screen_bindings("chart")

    @dataclass
    class Moved(Message):
        """The cursor is on another event, or stays for the reason in `news`."""

        news: str = ""

    class Entered(Message):
        """The learner wants to see the line of the event under the cursor."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.picture: TimelineLayout | None = None
        self.lane_number = 0
        self.number = 0
        """The position in its lane of the event under the cursor."""
        self.window = TimeWindow.whole(0, 1, 1)
        self.first_lane = 0
        self._drawn: dict[int, Strip] = {}
        self._styles: dict[str, Style] = {}
        self._kinds: set[SpanKind] = set()

    def show(self, picture: TimelineLayout) -> None:
        """Show another picture as a whole, with the cursor on its most important event."""
        self.picture = picture
        self._kinds = kinds_of(picture)
        self.first_lane = 0
        self.window = TimeWindow.whole(picture.begin, picture.finish, self.columns)
        self.lane_number, self.number = _first_event(picture)
        self.redraw()

    @property
    def _lanes(self) -> Sequence[Lane]:
        return self.picture.lanes if self.picture is not None else ()

    @property
    def lane(self) -> Lane:
        return self._lanes[self.lane_number]

    def height_for(self, lane_rows: int) -> int:
        """Return the height for all lanes with `lane_rows` rows each: one or two of bars, the third is empty."""
        return AXIS_ROWS + lane_rows * len(self._lanes) + 1

    @property
    def names_width(self) -> int:
        return 3 + max((len(lane.name) for lane in self._lanes), default=0) if self.picture else 0

    @property
    def columns(self) -> int:
        """The columns that fit. A paint between a new size and `on_resize` still draws those of `window`."""
        shares = _SHARE_WIDTH if self.size.width >= _SHARES_FROM else 0
        return max(self.size.width - self.names_width - shares - 1, 8)

    @property
    def lane_rows(self) -> int:
        """Rows of one lane, including the empty one below it."""
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

    def redraw(self) -> None:
        self._drawn.clear()
        shown = self._lanes_shown
        lowest, highest = self.lane_number - shown + 1, self.lane_number
        self.first_lane = min(max(min(self.first_lane, len(self._lanes) - shown), lowest, 0), highest)
        self.refresh()

    def notify_style_update(self) -> None:
        self._drawn.clear()
        self._styles.clear()
        super().notify_style_update()

    def render_line(self, y: int) -> Strip:
        if not self._lanes:
            return Strip.blank(self.size.width, self._style(""))
        if y not in self._drawn:
            self._drawn[y] = self._line(y).adjust_cell_length(self.size.width, self._style(""))
        return self._drawn[y]

    def _line(self, y: int) -> Strip:
        if y == 0:
            return self._axis()
        if y == 1:
            return self._cursor()
        if y == self.size.height - 1:
            return self._legend()
        place, row = divmod(y - AXIS_ROWS, self.lane_rows)
        number = self.first_lane + place
        if place >= self._lanes_shown or number >= len(self._lanes):
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
        characters = [" "] * (self.window.columns + 1)
        for tick in ticks(self.window):
            if tick.column + len(tick.label) <= len(characters):
                characters[tick.column : tick.column + len(tick.label)] = tick.label
        heading = "busy".rjust(_SHARE_WIDTH - 1) if self.size.width >= _SHARES_FROM else ""
        return Strip([self._segment(" " * self.names_width), self._segment("".join(characters) + heading, "axis")])

    def _cursor(self) -> Strip:
        """Draw the rule below the labels, with the cursor's event marked on it."""
        rule = ["─"] * self.window.columns
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
        name = f"{mark} {escape_control_chars(lane.name)}".ljust(self.names_width)
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
        characters = [" "] * self.window.columns
        for tick in ticks(self.window):
            characters[tick.column] = "·"
        return Strip([self._segment(" " * self.names_width), self._segment("".join(characters), "grid")])

    def _bars(self, glyphs: list[Glyph]) -> list[Segment]:
        parts = []
        for (role, reverse, on_bar, selected), run in groupby(glyphs, key=itemgetter(1, 2, 3, 4)):
            text = "".join(glyph.character for glyph in run)
            style = self._style(role)
            if selected and role not in ("grid", "hazard"):
                style += self._style("selected")
            if on_bar or reverse:
                style += Style(reverse=True)
            parts.append(Segment(text, style))
        return parts

    def _legend(self) -> Strip:
        """Explain the characters; on the right, say how many lanes are out of sight."""
        parts = [self._segment(" ")]
        left = self.size.width - 2
        hidden = len(self._lanes) - self._lanes_shown
        more = f"↕ {hidden} more {'row' if hidden == 1 else 'rows'}" if hidden > 0 else ""
        for kind, character, words in LEGEND:
            if kind in self._kinds and len(words) + 4 <= left - len(more):
                left -= len(words) + 4
                parts += [self._segment(character, ROLES[kind]), self._segment(f" {words}  ", "axis")]
        if more:
            parts += [self._segment(" " * (left - len(more) + 1)), self._segment(more, "mark")]
        return Strip(parts)

    def _segment(self, text: str, role: str = "") -> Segment:
        return Segment(text, self._style(role))

    def _style(self, role: str) -> Style:
        # Textual computes the widget's own style each time, in a third of a millisecond.
        if role not in self._styles:
            self._styles[role] = self.get_component_rich_style(f"chart--{role}") if role else self.rich_style
        return self._styles[role]

    def _go(self, lane_number: int, number: int, news: str = "") -> None:
        self.lane_number, self.number = lane_number, number
        self.window = self.window.showing(int(self.lane.start[number]), int(self.lane.end[number]))
        self.redraw()
        self.post_message(self.Moved(news))

    def _look_at(self, window: TimeWindow) -> None:
        """Show another part of the time; move the cursor if its event is out of sight."""
        self.window = window
        if not len(columns_of(self.lane, self.number, window)):
            nearest = self.lane.nearest(window.middle)
            if len(columns_of(self.lane, nearest, window)):
                self.number = nearest
        self.redraw()
        self.post_message(self.Moved())

    @property
    def _center(self) -> int:
        """The moment that keeps its column when zooming: the middle of the visible part of the event."""
        columns = columns_of(self.lane, self.number, self.window)
        if not len(columns):
            return self.window.middle
        start = max(int(self.lane.start[self.number]), self.window.begin)
        return (start + min(int(self.lane.end[self.number]), self.window.end)) // 2

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Let keys act only on a chart with lanes."""
        return bool(self._lanes)

    def action_step(self, by: int) -> None:
        number = self.number + by
        if 0 <= number < len(self.lane):
            self._go(self.lane_number, number)
        else:
            self.post_message(self.Moved(f"This is the {'last' if by > 0 else 'first'} event in this row."))

    def action_lane(self, by: int) -> None:
        number = self.lane_number + by
        if 0 <= number < len(self._lanes):
            self._go(number, self._lanes[number].nearest(self._center))

    def action_zoom(self, by: int) -> None:
        self._look_at(self.window.zoomed(ZOOM if by > 0 else 1 / ZOOM, self._center))

    def action_whole(self) -> None:
        self._look_at(TimeWindow.whole(self.window.least, self.window.most, self.columns))

    def action_zoom_to_event(self) -> None:
        self._look_at(self.window.zoomed_to(int(self.lane.start[self.number]), int(self.lane.end[self.number])))

    def action_pan(self, by: int) -> None:
        self._look_at(self.window.panned(_PAN * by))

    def action_end_of_lane(self, by: int) -> None:
        self._go(self.lane_number, len(self.lane) - 1 if by > 0 else 0)

    def action_stop(self, by: int) -> None:
        """Go to the next or previous hazard or wait, in any lane."""
        assert self.picture is not None
        stop = self.picture.stop_after(self.lane_number, self.number, by)
        if stop is not None:
            self._go(*stop)
        elif not len(self.picture.stops):
            self.post_message(self.Moved("There are no hazards, and the host never waits."))
        else:
            where = "after" if by > 0 else "before"
            self.post_message(self.Moved(f"There is no hazard or wait {where} this."))

    def action_other_end(self) -> None:
        """Go from a launch to the work that it started, and back."""
        assert self.picture is not None
        event = self.picture.other_end(self.lane_number, self.number)
        if event is not None:
            self._go(*event)
        else:
            self.post_message(self.Moved("This event is neither a launch nor launched work."))

    def action_go_to_line(self) -> None:
        self.post_message(self.Entered())

    def on_click(self, event: events.Click) -> None:
        lane_number = self.first_lane + (event.y - AXIS_ROWS) // self.lane_rows
        if AXIS_ROWS <= event.y < self.size.height - 1 and lane_number < len(self._lanes):
            column = min(max(event.x - self.names_width, 0), self.columns - 1)
            self._go(lane_number, self._lanes[lane_number].nearest(self.window.moment(column)))


def _first_event(picture: TimelineLayout) -> tuple[int, int]:
    """Return the lane and event for the cursor: a hazard, best with a line; else the longest work; else the first."""
    hazards = [
        (bool(picture.rows(lane).line[lane.row[number]]), place, number)
        for _, place, number in picture.stops.tolist()[:_MOST_STOPS]
        if (lane := picture.lanes[place]).hazard[number] >= 0 or lane.span[number] == SpanKind.OUT_OF_MEMORY
    ]
    if hazards:
        return max(hazards, key=itemgetter(0))[1:]
    best = (-1, 0, 0)
    for place, lane in enumerate(picture.lanes):
        if lane.kind in (LaneKind.HOST, LaneKind.RANGES):
            continue
        longest = int((lane.end - lane.start).argmax())
        best = max(best, (int(lane.end[longest] - lane.start[longest]), place, longest))
    return best[1:]

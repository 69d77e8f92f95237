"""The timeline's chart: the keys that move from event to event, zoom and pan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from gpututor.app.widgets.device.bars import columns_of
from gpututor.app.widgets.device.canvas import AXIS_ROWS, Canvas
from gpututor.app.widgets.device.window import Window

ZOOM = 0.5
_PAN = 0.5


class Chart(Canvas):
    """The arrow keys move from event to event and from lane to lane."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "step(-1)", show=False),
        Binding("right,l", "step(1)", show=False),
        Binding("up,k", "lane(-1)", show=False),
        Binding("down,j", "lane(1)", show=False),
        Binding("plus,equals_sign", "zoom(1)", show=False),
        Binding("minus,underscore", "zoom(-1)", show=False),
        Binding("0", "whole", show=False),
        Binding("z", "zoom_to_event", show=False),
        Binding("shift+left,left_square_bracket", "pan(-1)", show=False),
        Binding("shift+right,right_square_bracket", "pan(1)", show=False),
        Binding("n", "stop(1)", show=False),
        Binding("N", "stop(-1)", show=False),
        Binding("g,home", "end_of_lane(-1)", show=False),
        Binding("G,end", "end_of_lane(1)", show=False),
        Binding("space", "other_end", show=False),
        Binding("enter", "go_to_line", show=False),
    ]

    @dataclass
    class Moved(Message):
        """The cursor is on another event, or something is to be said about why it is not."""

        news: str = ""

    @dataclass
    class Entered(Message):
        """The learner wants to see the line of the event under the cursor."""

    def _go(self, lane_number: int, number: int, news: str = "") -> None:
        self.lane_number, self.number = lane_number, number
        self.window = self.window.showing(int(self.lane.start[number]), int(self.lane.end[number]))
        self.redraw()
        self.post_message(self.Moved(news))

    def _look_at(self, window: Window) -> None:
        """Another part of the time; the cursor goes along when its event is not seen any more."""
        self.window = window
        if not len(columns_of(self.lane, self.number, window)):
            nearest = self.lane.nearest(window.middle)
            if len(columns_of(self.lane, nearest, window)):
                self.number = nearest
        self.redraw()
        self.post_message(self.Moved())

    @property
    def _centre(self) -> int:
        """The moment that stays in its place when zooming: the middle of what is seen of the event."""
        columns = columns_of(self.lane, self.number, self.window)
        if not len(columns):
            return self.window.middle
        start = max(int(self.lane.start[self.number]), self.window.begin)
        return (start + min(int(self.lane.end[self.number]), self.window.end)) // 2

    @property
    def _can_move(self) -> bool:
        return self.picture is not None and bool(self.picture.lanes)

    def action_step(self, by: int) -> None:
        if not self._can_move:
            return
        number = self.number + by
        if 0 <= number < len(self.lane):
            self._go(self.lane_number, number)
        else:
            self.post_message(self.Moved(f"This is the {'last' if by > 0 else 'first'} event in this row."))

    def action_lane(self, by: int) -> None:
        assert self.picture is not None or not self._can_move
        if self.picture is None or not 0 <= self.lane_number + by < len(self.picture.lanes):
            return
        moment = self._centre
        self._go(self.lane_number + by, self.picture.lanes[self.lane_number + by].nearest(moment))

    def action_zoom(self, by: int) -> None:
        if self._can_move:
            self._look_at(self.window.zoomed(ZOOM if by > 0 else 1 / ZOOM, self._centre))

    def action_whole(self) -> None:
        if self._can_move:
            self._look_at(Window.whole(self.window.least, self.window.most, self.columns))

    def action_zoom_to_event(self) -> None:
        if self._can_move:
            self._look_at(self.window.around(int(self.lane.start[self.number]), int(self.lane.end[self.number])))

    def action_pan(self, by: int) -> None:
        if self._can_move:
            self._look_at(self.window.panned(_PAN * by))

    def action_end_of_lane(self, by: int) -> None:
        if self._can_move:
            self._go(self.lane_number, len(self.lane) - 1 if by > 0 else 0)

    def action_stop(self, by: int) -> None:
        """To the next hazard or wait, in whichever lane."""
        if self.picture is None or not self._can_move:
            return
        found = self.picture.stop_after(self.lane_number, self.number, by)
        if found is not None:
            self._go(*found)
        elif not len(self.picture.stops):
            self.post_message(self.Moved("There are no hazards, and the host never waits."))
        else:
            where = "after" if by > 0 else "before"
            self.post_message(self.Moved(f"There is no hazard or wait {where} this."))

    def action_other_end(self) -> None:
        """From a launch to what was launched, and back."""
        if self.picture is None or not self._can_move:
            return
        found = self.picture.other_end(self.lane_number, self.number)
        if found is not None:
            self._go(*found)
        else:
            self.post_message(self.Moved("Only launches, and what they launched, have another end."))

    def action_go_to_line(self) -> None:
        if self._can_move:
            self.post_message(self.Entered())

    def on_click(self, event: events.Click) -> None:
        if self.picture is None or event.y < AXIS_ROWS:
            return
        lane_number = self.first_lane + (event.y - AXIS_ROWS) // self.lane_rows
        column = event.x - self.names_width
        if lane_number < len(self.picture.lanes) and event.y < self.size.height - 1:
            moment = self.window.moment(min(max(column, 0), self.columns - 1))
            self._go(lane_number, self.picture.lanes[lane_number].nearest(moment))

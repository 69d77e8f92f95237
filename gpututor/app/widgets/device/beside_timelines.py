"""The page of the comparison with the timelines of both attempts."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from gpututor.app.messages import LineChosen
from gpututor.app.widgets.device.beside import Pair
from gpututor.app.widgets.device.chart import Chart
from gpututor.app.widgets.device.places import code, line_of
from gpututor.app.widgets.device.view import RunView
from gpututor.app.widgets.device.window import Window
from gpututor.app.widgets.plain import PlainText
from gpututor.plain_text import visible
from gpututor.trace.event_words import words_of
from gpututor.trace.units import duration


class TimelinesPage(Vertical):
    """Both timelines above each other, on one scale; zooming and panning moves both."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("o", "other", "Other one", show=False)]
    KEYS = "←→ event · ↑↓ lane · +- zoom · o other one · Enter line · 0 all · [ ] move"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.charts = (Chart(id="upper"), Chart(id="lower"))
        self._names = (PlainText("", classes="name"), PlainText("", classes="name"))
        self._words = PlainText("", classes="words")
        self._pair: Pair | None = None

    def compose(self) -> ComposeResult:
        for name, chart in zip(self._names, self.charts, strict=True):
            yield name
            yield chart
        yield self._words

    def show(self, pair: Pair) -> None:
        self._pair = pair
        views = (pair.left, pair.right)
        names = (f"attempt {pair.left.attempt}", pair.other.short)
        pictures = [view.loaded.picture if view.loaded is not None else None for view in views]
        span = max((one.finish - one.begin for one in pictures if one is not None), default=1)
        for name, widget, chart, view, picture in zip(names, self._names, self.charts, views, pictures, strict=True):
            taken = f", {duration(view.case.work_ns)} {view.run.times}" if view.run.times else ""
            there = picture is not None and bool(picture.lanes)
            widget.update(f"{name}{taken}" if there else f"{name}: there is nothing to draw. {_missing(view)}")
            chart.display = there
            if picture is not None and there:
                chart.show(picture)
                chart.window = Window.whole(picture.begin, picture.begin + span, chart.columns)
                chart.redraw()
        self._tell(self.charts[0])

    def take_focus(self) -> None:
        for chart in self.charts:
            if chart.display:
                chart.focus()
                return

    def action_other(self) -> None:
        """Give the keys to the other timeline."""
        upper, lower = self.charts
        (lower if upper.has_focus and lower.display else upper).focus()

    @on(events.DescendantFocus)
    def _tell_of_focused(self) -> None:
        self._tell(next((chart for chart in self.charts if chart.has_focus), self.charts[0]))

    @on(Chart.Moved)
    def _follow(self, message: Chart.Moved) -> None:
        message.stop()
        chart = next((one for one in self.charts if one.has_focus), self.charts[0])
        other = self.charts[1 - self.charts.index(chart)]
        begin = other.window.least + chart.window.begin - chart.window.least
        window = replace(other.window, begin=begin, end=begin + chart.window.span)
        if other.display and window != other.window:
            other.window = window
            other.redraw()
        self._tell(chart, message.news)

    @on(Chart.Entered)
    def _choose_line(self, message: Chart.Entered) -> None:
        message.stop()
        chart = next((one for one in self.charts if one.has_focus), self.charts[0])
        if self._pair is None or chart.picture is None or chart is not self.charts[0]:
            self._words.update("Only lines of the upper one are in your editor." if self._pair else "")
            return
        place = words_of(chart.picture, chart.lane, chart.number).place
        line = line_of(place, self._pair.left.file_name)
        if line is None:
            self._words.update("No line of your file caused this.")
        else:
            self.post_message(LineChosen(line))

    def _tell(self, chart: Chart, news: str = "") -> None:
        """The event under the cursor in a line or two."""
        if self._pair is None or chart.picture is None or not chart.display:
            self._words.update("")
            return
        view = self._pair.left if chart is self.charts[0] else self._pair.right
        words = words_of(chart.picture, chart.lane, chart.number, view.run.times)
        line = line_of(words.place, view.file_name)
        where = f" · line {line}  {code(view.source_line(line)).strip()}" if line is not None else ""
        self._words.update(f"{f'{news} ' if news else ''}{words.title}{where}\n{' · '.join(words.facts[:1])}")


def _missing(view: RunView) -> str:
    return visible(" ".join(view.loaded.missing)) if view.loaded is not None else ""

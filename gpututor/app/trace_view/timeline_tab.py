"""The timeline tab: the lanes of a call, and below them the event under the cursor in words."""

from __future__ import annotations

from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from gpututor.app.messages import LineChosen
from gpututor.app.trace_view.chart import MOST_LANE_ROWS, Chart
from gpututor.app.trace_view.model import RunView, code, line_of
from gpututor.app.widgets.base import PlainText
from gpututor.text import escape_control_chars
from gpututor.trace.arrays import Place
from gpututor.trace.text import EventDescription, describe_event
from gpututor.trace.timeline import TimelineLayout

_LEAST_WORDS = 9
"""Rows for the event in words, before lanes get an empty line between them."""
_LEAST_CHART = 6
_FACTS = 6
"""Rows that the words take most often, beside those of the file."""
_OF_ANOTHER = 4
"""Lines around the event's own that make room for the line that it collides with."""
_EDGES = 3
"""Columns around the words: empty ones, and a scrollbar's."""
_AROUND = 2
"""Lines of the file to show before and after the event's own, at least."""
Parts = list[Content | str | tuple[str, str]]


class Timeline(Vertical):
    """Shows one case; posts `LineChosen` for the event's line."""

    KEYS = "←→ event · ↑↓ lane · +- zoom · Enter line · n hazard, wait · 0 all · [ ] move · Space launch"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("pagedown", "scroll_words(1)", show=False),
        Binding("pageup", "scroll_words(-1)", show=False),
    ]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.chart = Chart(id="chart")
        self._message = PlainText("", classes="message")
        self._words = Static("", classes="words")
        self._view: RunView | None = None
        self._news = ""
        self._around = _AROUND

    def compose(self) -> ComposeResult:
        yield self._message
        yield self.chart
        with VerticalScroll(id="event", can_focus=False):
            yield self._words

    def show(self, view: RunView) -> None:
        """Show the case of `view`; while its traces are being read, say so."""
        self._view = view
        self._news = ""
        picture = view.loaded.picture if view.loaded is not None else None
        if picture is not None and picture.lanes:
            self.chart.show(picture)
        message = "\n".join(_notes(view, picture))
        self._message.update(message)
        self._message.display = bool(message)
        self.chart.display = picture is not None and bool(picture.lanes)
        self._share_room()
        self._tell()

    def take_focus(self) -> None:
        """Give the keys to the chart."""
        self.chart.focus()

    def on_resize(self, event: events.Resize) -> None:
        self._share_room()
        self._tell()

    def _share_room(self) -> None:
        """Lanes are high, and have an empty line between them, where the words below keep enough room."""
        notes = self._message.size.height if self._message.display else 0
        room = self.size.height - notes - _LEAST_WORDS
        roomy = ((MOST_LANE_ROWS, 8), (2, 4), (1, 0))
        fitting = (rows for rows, spare in roomy if self.chart.height_for(rows) <= room - spare)
        rows = next(fitting, 0)
        height = self.chart.height_for(rows) if rows else max(room, _LEAST_CHART)
        self.chart.styles.height = height
        self._around = max(_AROUND, (self.size.height - notes - height - _FACTS) // 2)

    @on(Chart.Moved)
    def _follow(self, message: Chart.Moved) -> None:
        message.stop()
        self._news = message.news
        self._tell()

    @on(Chart.Entered)
    def _choose_line(self, message: Chart.Entered) -> None:
        message.stop()
        words = self._event()
        line = line_of(words.place, self._view.file_name) if words and self._view else None
        if line is not None:
            self.post_message(LineChosen(line))
        else:
            self._news = "No line of your file caused this."
            self._tell()

    def action_scroll_words(self, by: int) -> None:
        self.query_one("#event").scroll_relative(y=3 * by, animate=False)

    def _event(self) -> EventDescription | None:
        picture = self.chart.picture
        if self._view is None or picture is None or not self.chart.display:
            return None
        return describe_event(picture, self.chart.lane, self.chart.number, self._view.run.times)

    def _tell(self) -> None:
        words = self._event()
        if words is None or self._view is None:
            self._words.update("")
            return
        width = self.size.width - _EDGES
        self._words.update(event_content(words, self._view, self._position(), self._news, self._around, width))
        self.query_one("#event").scroll_home(animate=False)

    def _position(self) -> str:
        return f"{self.chart.number + 1:,} of {len(self.chart.lane):,} in this row"


def event_content(
    words: EventDescription, view: RunView, position: str, news: str = "", around: int = _AROUND, width: int = 76
) -> Content:
    """The event in words, with its line and the lines around it."""
    parts: Parts = []
    if news:
        parts.append((f"{escape_control_chars(news)}\n", "$text-warning"))
    parts += [(escape_control_chars(words.title), "bold"), (f"   {position}\n", "$foreground-muted")]
    for number, sentence in enumerate(words.hazards):
        parts.append((f"{'!' if number == 0 else ' '} {escape_control_chars(sentence)}.\n", "$text-error"))
    parts += [f"{escape_control_chars(fact)}.\n" for fact in words.facts]
    earlier = line_of(words.earlier, view.file_name)
    if earlier is not None and not _is_near(earlier, line_of(words.place, view.file_name), around):
        parts += _source(words.place, view, "", max(around - _OF_ANOTHER, 1), width)
        parts += _source(words.earlier, view, "It collides with ", 1, width)
    else:
        parts += _source(words.place, view, "", around, width)
    return Content.assemble(*parts)


def _is_near(line: int, other: int | None, around: int) -> bool:
    return other is not None and abs(line - other) <= around


def _source(place: Place, view: RunView, before: str, around: int, width: int) -> Parts:
    """The line with its neighbours, as they were in the attempt; a long one is cut."""
    line = line_of(place, view.file_name)
    if line is None:
        known = f"Caused by {escape_control_chars(str(place))}, which is not your file.\n"
        return [(known if place.line is not None else "No line of yours caused this.\n", "$foreground-muted")]
    lines = view.source_lines
    if view.source is None or line > len(lines):
        return [(f"{before}{view.file_name}:{line}\n" if before else f"Line {line}\n", "$foreground-muted")]
    parts: Parts = [(f"{before}line {line}:\n", "$foreground-muted")] if before else []
    numbers = range(max(line - around, 1), min(line + around, len(lines)) + 1)
    digits = len(str(numbers[-1]))
    room = max(width - digits - 4, 8)
    for number in numbers:
        text = Content(code(lines[number - 1])).truncate(room, ellipsis=True).plain
        if number == line:
            parts += [(f"▸ {number:>{digits}}  ", "bold $text-accent"), (f"{text}\n", "bold")]
        else:
            parts.append((f"  {number:>{digits}}  {text}\n", "$foreground-muted"))
    return parts


def _notes(view: RunView, picture: TimelineLayout | None) -> list[str]:
    """What is to be said before the picture: what is missing in it."""
    if view.loaded is None or picture is None:
        return ["Reading what was recorded …"]
    notes = list(view.loaded.missing)
    if picture.untimed:
        notes.append(f"When {picture.untimed:,} kernels and copies ran is not known, so they are not drawn.")
    dropped = sum(call.dropped for call in view.case.calls)
    if dropped:
        notes.append(f"{dropped:,} more events came later, and were not kept.")
    if not picture.lanes and not notes:
        notes.append("No work ran on a device in this call, and the host did not compute with tensors.")
    return notes

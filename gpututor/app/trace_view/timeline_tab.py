"""The timeline tab: the lanes of a call, and below them the event under the cursor in words."""

from __future__ import annotations

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from gpututor.app.commands import screen_bindings
from gpututor.app.messages import LineChosen
from gpututor.app.trace_view.chart import MOST_LANE_ROWS, Chart
from gpututor.app.trace_view.model import RunView, code, line_of
from gpututor.app.widgets.base import PlainText
from gpututor.text import escape_control_chars
from gpututor.trace.arrays import Place
from gpututor.trace.text import EventDescription, describe_event
from gpututor.trace.timeline import TimelineLayout

_LEAST_WORDS = 9
"""Rows for the event in words that lanes leave free before they get an empty row."""
_LEAST_CHART = 6
_FACTS = 6
"""Rows that the words usually take, without those of the file."""
_EARLIER_ROWS = 4
"""Lines of the file given up to show the line that the event collides with."""
_MARGIN = 3
"""Columns next to the words: empty columns, and the scrollbar's."""
_CONTEXT = 2
"""Lines of the file before and after the event's own line, at least."""
_PALE = "$foreground-muted"
_Parts = list[Content | str | tuple[str, str]]


class Timeline(Vertical):
    """A case as a chart; posts `LineChosen` for the event's line."""

    KEYS = "timeline"
    BINDINGS = screen_bindings("timeline", "words")

    def __init__(self) -> None:
        super().__init__()
        self.chart = Chart(id="chart")
        self._message = PlainText("", classes="message")
        self._words = Static("", classes="words")
        self._scroll = VerticalScroll(self._words, id="event", can_focus=False)
        self._view: RunView | None = None
        self._source_context = _CONTEXT

    def compose(self) -> ComposeResult:
        yield self._message
        yield self.chart
        yield self._scroll

    def show(self, view: RunView) -> None:
        """Show the case of `view`; while its traces are being read, say so."""
        self._view = view
        picture = view.loaded.picture if view.loaded is not None else None
        self.chart.display = picture is not None and bool(picture.lanes)
        if picture is not None and picture.lanes:
            self.chart.show(picture)
        message = "\n".join(_notes(view, picture))
        self._message.update(message)
        self._message.display = bool(message)
        self._share_space()
        self._describe()

    def take_focus(self) -> None:
        self.chart.focus()

    def on_resize(self, event: events.Resize) -> None:
        self._share_space()
        self._describe()

    def _share_space(self) -> None:
        """Make lanes high, with an empty row between them, if the words below keep enough space."""
        notes = self._message.size.height if self._message.display else 0
        space = self.size.height - notes - _LEAST_WORDS
        choices = ((MOST_LANE_ROWS, 8), (2, 4), (1, 0))
        rows = next((rows for rows, spare in choices if self.chart.height_for(rows) <= space - spare), 0)
        height = self.chart.height_for(rows) if rows else max(space, _LEAST_CHART)
        self.chart.styles.height = height
        self._source_context = max(_CONTEXT, (self.size.height - notes - height - _FACTS) // 2)

    @on(Chart.Moved)
    def _follow(self, message: Chart.Moved) -> None:
        message.stop()
        self._describe(message.news)

    @on(Chart.Entered)
    def _choose_line(self, message: Chart.Entered) -> None:
        message.stop()
        event = self._event()
        line = line_of(event.place, self._view.file_name) if event and self._view else None
        if line is not None:
            self.post_message(LineChosen(line))
        else:
            self._describe("No line of your file caused this.")

    def action_scroll_words(self, by: int) -> None:
        self._scroll.scroll_relative(y=3 * by, animate=False)

    def _event(self) -> EventDescription | None:
        picture = self.chart.picture
        if self._view is None or picture is None or not self.chart.display:
            return None
        return describe_event(picture, self.chart.lane, self.chart.number, self._view.run.times)

    def _describe(self, news: str = "") -> None:
        event = self._event()
        if event is None or self._view is None:
            self._words.update("")
            return
        position = f"{self.chart.number + 1:,} of {len(self.chart.lane):,} in this row"
        width = self.size.width - _MARGIN
        self._words.update(_event_content(event, self._view, position, news, self._source_context, width))
        self._scroll.scroll_home(animate=False)


def _event_content(
    event: EventDescription, view: RunView, position: str, news: str = "", context: int = _CONTEXT, width: int = 76
) -> Content:
    """Describe an event in words, with its line and `context` lines before and after it."""
    parts: _Parts = []
    if news:
        parts.append((f"{escape_control_chars(news)}\n", "$text-warning"))
    parts += [(escape_control_chars(event.title), "bold"), (f"   {position}\n", _PALE)]
    for number, sentence in enumerate(event.hazards):
        parts.append((f"{'!' if number == 0 else ' '} {escape_control_chars(sentence)}.\n", "$text-error"))
    parts += [f"{escape_control_chars(fact)}.\n" for fact in event.facts]
    line, earlier = (line_of(place, view.file_name) for place in (event.place, event.earlier))
    if earlier is not None and (line is None or abs(earlier - line) > context):
        parts += _source(event.place, view, "", max(context - _EARLIER_ROWS, 1), width)
        parts += _source(event.earlier, view, "It collides with ", 1, width)
    else:
        parts += _source(event.place, view, "", context, width)
    return Content.assemble(*parts)


def _source(place: Place, view: RunView, before: str, context: int, width: int) -> _Parts:
    """Return the line and its neighbors as they were in the attempt; long lines are cut."""
    line = line_of(place, view.file_name)
    if line is None:
        known = f"Caused by {escape_control_chars(str(place))}, which is not your file.\n"
        return [(known if place.line is not None else "No line of your file caused this.\n", _PALE)]
    lines = view.source_lines
    if view.source is None or line > len(lines):
        return [(f"{before}{view.file_name}:{line}\n" if before else f"Line {line}\n", _PALE)]
    parts: _Parts = [(f"{before}line {line}:\n", _PALE)] if before else []
    numbers = range(max(line - context, 1), min(line + context, len(lines)) + 1)
    digits = len(str(numbers[-1]))
    for number in numbers:
        text = Content(code(lines[number - 1])).truncate(max(width - digits - 4, 8), ellipsis=True).plain
        if number == line:
            parts += [(f"▸ {number:>{digits}}  ", "bold $text-accent"), (f"{text}\n", "bold")]
        else:
            parts.append((f"  {number:>{digits}}  {text}\n", _PALE))
    return parts


def _notes(view: RunView, picture: TimelineLayout | None) -> list[str]:
    if view.loaded is None or picture is None:
        return ["Reading what was recorded …"]
    notes = list(view.loaded.missing)
    if picture.untimed:
        notes.append(f"{picture.untimed:,} kernels and copies have no known times, so they are not drawn.")
    dropped = sum(call.dropped for call in view.case.calls)
    if dropped:
        notes.append(f"{dropped:,} later events were not recorded.")
    if not picture.lanes and not notes:
        notes.append("No work ran on a device in this call, and the host did not compute with tensors.")
    return notes

"""The history of attempts, and the difference between two of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Literal, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual import events, on
from textual.app import ComposeResult
from textual.containers import Container, Vertical, VerticalScroll
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Static

from gpututor.app.commands import foot, screen_bindings
from gpututor.app.runtime import in_thread
from gpututor.app.screens.base import BaseScreen
from gpututor.app.screens.diff import DiffLine, DiffView, diff_lines
from gpututor.app.widgets.base import PlainText
from gpututor.app.wording import moment, sentence
from gpututor.errors import TutorError
from gpututor.grading.report import Outcome, Status
from gpututor.grading.report_text import count, device_words, mark, outcome_line, outcome_title
from gpututor.progress.store import Attempt
from gpututor.text import truncate
from gpututor.trace.formatting import duration, size

_HEADER = f"  {'#':>4}  {'when':<15} {'outcome':<21} {'checks':>8} {'time':>8} {'memory':>9}"
_WIDTH = 78


class AttemptList(ScrollView, can_focus=True):
    """Attempts, one a row; a row is known once its attempt has been read."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"attempt-list--{name}" for name in ("cursor", "passed", "failed", "muted")
    }
    BINDINGS = screen_bindings("attempts")

    class Moved(Message):
        """The cursor is on another row."""

    @dataclass
    class Scrolled(Message):
        """Rows that are not known have come in sight."""

        rows: tuple[int, ...]

    def __init__(self, rows: int, *, now: Callable[[], datetime], id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows = rows
        self._now = now
        self.cursor = 0
        self._best: int | None = None
        self.known: dict[int, Attempt | None] = {}
        self._requested: set[int] = set()
        self.virtual_size = Size(_WIDTH, rows)

    def show(self, attempts: dict[int, Attempt | None]) -> None:
        """Show the attempts of some rows; None if an attempt cannot be read."""
        self.known |= attempts
        self.refresh()

    def mark_best(self, attempt: int) -> None:
        """Mark the best attempt, by its id."""
        self._best = attempt
        self.refresh()

    def on_resize(self, event: events.Resize) -> None:
        self._request()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._request()

    def _request(self) -> None:
        """Request the visible rows, and the row below: the last visible row is compared with it."""
        first = max(0, self.scroll_offset.y - 1)
        in_sight = range(first, min(self._rows, first + max(self.size.height, 10) + 2))
        rows = tuple(row for row in in_sight if row not in self.known and row not in self._requested)
        if rows:
            self._requested.update(rows)
            self.post_message(self.Scrolled(rows))

    def action_move(self, by: int) -> None:
        self._go(self.cursor + by)

    def action_page(self, by: int) -> None:
        self._go(self.cursor + by * max(1, self.size.height - 1))

    def action_go(self, row: int) -> None:
        self._go(row if row >= 0 else self._rows - 1)

    def _go(self, row: int) -> None:
        row = max(0, min(row, self._rows - 1))
        if row != self.cursor:
            self.cursor = row
            self.scroll_to_region(Region(0, row, 1, 1), animate=False)
            self.refresh()
            self.post_message(self.Moved())

    def on_click(self, event: events.Click) -> None:
        row = self.scroll_offset.y + event.y
        if row < self._rows:
            self._go(row)

    def render_line(self, y: int) -> Strip:
        row = self.scroll_offset.y + y
        base, width = self.rich_style, self.size.width
        if row >= self._rows:
            return Strip.blank(width, base)
        at_cursor = row == self.cursor
        if at_cursor:
            base += Style(reverse=True) if self.app.no_color else self._style("cursor")
        segments = [Segment("▸ " if at_cursor else "  ", base)]
        number = f"{self._rows - row:>4}  "
        if row not in self.known:
            segments.append(Segment(f"{number}…", base))
        elif (attempt := self.known[row]) is None:
            segments.append(Segment(f"{number}A newer gpututor wrote it in another format.", base))
        else:
            segments += self._cells(number, attempt, base)
        return Strip(segments).adjust_cell_length(width, base)

    def _cells(self, number: str, attempt: Attempt, base: Style) -> list[Segment]:
        report = attempt.report
        passed = sum(verdict.status is Status.PASSED for verdict in report.verdicts)
        checks = f"{passed} of {len(report.verdicts)}" if report.verdicts and not report.loads_nowhere else ""
        time = duration(attempt.run_ns) if attempt.run_ns else ""
        memory = size(attempt.peak_bytes) if attempt.peak_bytes else ""
        color = "passed" if report.outcome is Outcome.PASSED else "failed"
        best = " best" if attempt.id == self._best else ""
        return [
            Segment(number, base),
            Segment(f"{moment(report.started_at, self._now()):<15.15} ", base + self._style("muted")),
            Segment(f"{outcome_title(report):<21.21} ", base + self._style(color)),
            Segment(f"{checks:>8} {time:>8} {memory:>9}", base),
            Segment(best, base + self._style("passed")),
        ]

    def _style(self, name: str) -> Style:
        return self.get_component_rich_style(f"attempt-list--{name}", partial=True)


MOST_LINES = 3000
"""Longer files are not compared: it would take seconds."""
_BREAKPOINTS = [(0, "-below"), (130, "-beside")]
"""Widths from which the changes are below the list, or to its right."""
_CONTEXT = 1
_GAP = DiffLine(" ", "⋮", 0)
_NO_TEXT = "An older gpututor did not save its text."


@dataclass(frozen=True)
class Chosen:
    """The learner's choice of an attempt and an action."""

    what: Literal["report", "text", "device", "compare"]
    attempt: Attempt


class AttemptSource(NamedTuple):
    """The attempts at one exercise; reading may take its time and raise `TutorError`."""

    ids: Sequence[int]
    """The newest first."""
    read: Callable[[int], Attempt | None]
    best: Callable[[], Attempt | None]


class HistoryScreen(BaseScreen[Chosen | None]):
    """Dismissed with the learner's choice, or None."""

    BINDINGS = screen_bindings("history")
    HORIZONTAL_BREAKPOINTS = _BREAKPOINTS

    def __init__(
        self,
        title: str,
        source: AttemptSource,
        starter: str,
        *,
        now: Callable[[], datetime] = lambda: datetime.now().astimezone(),
    ) -> None:
        """`starter`: the text to compare the first attempt with."""
        super().__init__()
        self._title = title
        self._source = source
        self._starter = starter
        self._now = now
        self._list = AttemptList(len(source.ids), now=now, id="attempts")
        self._head = PlainText("", classes="head")
        self._about = PlainText("", classes="about")
        self._since = PlainText("", classes="since")
        self._changes = DiffView(())
        self._side = VerticalScroll(id="changes", can_focus=False)
        self._shown: tuple[int | None, int | None] | None = None

    def compose(self) -> ComposeResult:
        yield PlainText(f"{count(len(self._source.ids), 'attempt')} at {self._title}", classes="title")
        with Container(classes="halves"):
            with Vertical(classes="list"):
                yield PlainText(_HEADER, classes="header")
                yield self._list
            with self._side:
                yield self._head
                yield self._about
                yield self._since
                yield self._changes
        yield Static(foot("history"), classes="foot", markup=False)

    def on_mount(self) -> None:
        self._list.focus()
        in_thread(self._find_best)

    @on(AttemptList.Scrolled)
    def _read_rows(self, message: AttemptList.Scrolled) -> None:
        message.stop()
        in_thread(self._read, message.rows)

    def _read(self, rows: tuple[int, ...]) -> None:
        try:
            attempts = {row: self._source.read(self._source.ids[row]) for row in rows}
        except TutorError as error:
            self.call_later(self._about.update, f"! {error.title}")
        else:
            self.call_later(self._show_attempts, attempts)

    def _find_best(self) -> None:
        try:
            best = self._source.best()
        except TutorError:
            return  # the list reports it
        if best is not None:
            self.call_later(self._list.mark_best, best.id)

    def _show_attempts(self, attempts: dict[int, Attempt | None]) -> None:
        self._list.show(attempts)
        self._show_changes()

    @on(AttemptList.Moved)
    def _show_changes(self) -> None:
        row, known = self._list.cursor, self._list.known
        last = len(self._source.ids) - 1
        if row not in known or (row < last and row + 1 not in known):
            return  # a thread is reading them
        attempt, before = known[row], known.get(row + 1)
        shown = (attempt.id if attempt else None, before.id if before else None)
        if shown == self._shown:
            return
        self._shown = shown
        head, about, since, lines = "It cannot be read.", "", "", tuple[DiffLine, ...]()
        if attempt is not None:
            head = f"Attempt {attempt.number}: {outcome_line(attempt.report)}"
            about = "\n".join(_about(attempt, self._now()))
            since, lines = changes(attempt, before, self._starter, is_first=row == last)
        self._head.update(head)
        self._about.update(about)
        self._since.update(since)
        self._changes.show(lines)
        self._side.scroll_home(animate=False)

    def action_scroll_changes(self) -> None:
        """Scroll the changes a page on; from their end, back to the top."""
        side = self._side
        if side.scroll_offset.y >= side.max_scroll_y:
            side.scroll_home(animate=False)
        else:
            side.scroll_relative(y=max(1, side.size.height - 2), animate=False)

    def action_choose(self, what: Literal["report", "text", "device", "compare"]) -> None:
        attempt = self._list.known.get(self._list.cursor)
        if attempt is not None and what == "text" and attempt.source is None:
            self._since.update(_NO_TEXT)
        elif attempt is not None:
            self.dismiss(Chosen(what, attempt))

    def on_click(self, event: events.Click) -> None:
        if event.chain == 2 and event.widget is self._list:
            self.action_choose("report")

    def action_help(self) -> None:
        from gpututor.app.screens.help import screen_help

        self.app.push_screen(screen_help("Your attempts: their keys", "history"))


def _about(attempt: Attempt, now: datetime) -> Iterator[str]:
    """Yield when and where the attempt ran, its time and memory, and its first failure."""
    report = attempt.report
    taken = [duration(attempt.run_ns)] if attempt.run_ns else []
    taken += [f"{size(attempt.peak_bytes)} of memory"] if attempt.peak_bytes else []
    times = " and ".join(dict.fromkeys(run.times for run in report.runs if run.times))
    where = f"{moment(report.started_at, now)}, on {device_words(report.device)}"
    yield where[0].upper() + where[1:]
    if taken:
        modelled = f" ({times})" if times and times not in where else ""
        yield f"Its calls took {' and '.join(taken)}{modelled}"
    if (failure := report.first_failure) is not None:
        yield f"{mark(failure.status)}: {sentence(failure.sentence)}"
        if failure.got:
            got = truncate(failure.got.splitlines()[0], 200)
            line = f", line {failure.line}" if failure.line is not None and f"line {failure.line}" not in got else ""
            yield f"  got {got}{line}"
    elif report.reason:
        yield truncate(report.reason.splitlines()[0], 200)


def changes(
    attempt: Attempt, before: Attempt | None, starter: str, *, is_first: bool
) -> tuple[str, tuple[DiffLine, ...]]:
    """Return the changes in the file since the attempt before, after a sentence about them."""
    if attempt.source is None:
        return _NO_TEXT, ()
    if is_first:
        name, old = "the starter", starter
    elif before is None:
        return "The attempt before cannot be read.", ()
    elif before.source is None:
        return f"The text of attempt {before.number} was not saved.", ()
    else:
        name, old = f"attempt {before.number}", before.source
    if old == attempt.source:
        return f"Since {name} nothing changed in the file.", ()
    if max(old.count("\n"), attempt.source.count("\n")) > MOST_LINES:
        return f"The file changed since {name}; it is too long to be compared here.", ()
    lines = diff_lines(old, attempt.source)
    return f"Since {name}, {count(sum(line.change > 0 for line in lines), 'change')}:", _with_context(lines)


def _with_context(lines: tuple[DiffLine, ...]) -> tuple[DiffLine, ...]:
    """Return the changed lines with some lines before and after them; `⋮` marks omitted lines."""
    changed = [number for number, line in enumerate(lines) if line.sign != " "]
    near = {number + by for number in changed for by in range(-_CONTEXT, _CONTEXT + 1)}
    shown: list[DiffLine] = []
    for number, line in enumerate(lines):
        if number in near:
            shown.append(line)
        elif not shown or shown[-1] is not _GAP:
            shown.append(_GAP)
    return tuple(shown)

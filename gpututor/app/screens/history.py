"""The history of attempts, and the difference between two of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Literal

from rich.segment import Segment
from rich.style import Style
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical, VerticalScroll
from textual.content import Content
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Static

from gpututor.app.commands import foot, help_keys, screen_bindings
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

HEADER = f"  {'#':>4}  {'when':<15} {'outcome':<21} {'checks':>8} {'time':>8} {'memory':>9}"
"""What stands above the list."""
_WIDTH = 78


class AttemptList(ScrollView, can_focus=True):
    """Told how many rows there are, and of each what it is as soon as that is known."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "attempt-list--cursor",
        "attempt-list--passed",
        "attempt-list--failed",
        "attempt-list--muted",
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "move(1)", show=False),
        Binding("k,up", "move(-1)", show=False),
        Binding("pagedown,space", "page(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("g,home", "go(0)", show=False),
        Binding("G,end", "go(-1)", show=False),
    ]

    @dataclass
    class Moved(Message):
        """The cursor stands on another row."""

        row: int

    @dataclass
    class Wanted(Message):
        """These rows came in sight, and are not known."""

        rows: tuple[int, ...]

    def __init__(self, rows: int, *, now: Callable[[], datetime], id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows = rows
        self._now = now
        self.cursor = 0
        self._best: int | None = None
        self._known: dict[int, Attempt | None] = {}
        self._asked: set[int] = set()
        self.virtual_size = Size(_WIDTH, rows)

    def show(self, attempts: dict[int, Attempt | None]) -> None:
        """What some rows are; None: what cannot be read."""
        self._known |= attempts
        self.refresh()

    def mark_best(self, attempt: int) -> None:
        """Mark the best attempt, by its id."""
        self._best = attempt
        self.refresh()

    def on_mount(self) -> None:
        self._ask()

    def on_resize(self, event: events.Resize) -> None:
        self._ask()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._ask()

    def _ask(self) -> None:
        """Ask for what is in sight; for one more, with which the last one is compared."""
        first = max(0, self.scroll_offset.y - 1)
        wanted = [
            row
            for row in range(first, min(self._rows, first + max(self.size.height, 10) + 2))
            if row not in self._known and row not in self._asked
        ]
        if wanted:
            self._asked.update(wanted)
            self.post_message(self.Wanted(tuple(wanted)))

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
            self.post_message(self.Moved(row))

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
        if row not in self._known:
            segments.append(Segment(f"{number}…", base))
        elif (attempt := self._known[row]) is None:
            segments.append(Segment(f"{number}A newer gpututor wrote it in another form.", base))
        else:
            segments += self._cells(number, attempt, base)
        return Strip(segments).adjust_cell_length(width, base)

    def _cells(self, number: str, attempt: Attempt, base: Style) -> list[Segment]:
        report = attempt.report
        passed = sum(verdict.status is Status.PASSED for verdict in report.verdicts)
        checks = f"{passed} of {len(report.verdicts)}" if report.verdicts and not report.loads_nowhere else ""
        time = duration(attempt.run_ns) if attempt.run_ns else ""
        memory = size(attempt.peak_bytes) if attempt.peak_bytes else ""
        colour = "passed" if report.outcome is Outcome.PASSED else "failed"
        best = " best" if attempt.id == self._best else ""
        return [
            Segment(number, base),
            Segment(f"{moment(report.started_at, self._now()):<15.15} ", base + self._style("muted")),
            Segment(f"{outcome_title(report):<21.21} ", base + self._style(colour)),
            Segment(f"{checks:>8} {time:>8} {memory:>9}", base),
            Segment(best, base + self._style("passed")),
        ]

    def _style(self, name: str) -> Style:
        return self.get_component_rich_style(f"attempt-list--{name}", partial=True)


MOST_LINES = 3000
"""Longer files are not compared: it would take seconds."""
BREAKPOINTS = [(0, "-below"), (130, "-beside")]
"""From which width on what changed stands where, seen from the list."""
_CONTEXT = 1
"""Lines around a change."""
_NO_TEXT = "Its text was not kept: an older gpututor wrote it down."


@dataclass(frozen=True)
class Chosen:
    """What the learner wants to do with which attempt."""

    what: Literal["report", "text", "device", "compare"]
    attempt: Attempt


class AttemptSource:
    """Where the attempts at one exercise come from; reading may take its time and raise `TutorError`."""

    def __init__(
        self, ids: Sequence[int], read: Callable[[int], Attempt | None], best: Callable[[], Attempt | None]
    ) -> None:
        """`ids`: newest first."""
        self.ids = ids
        self.read = read
        self.best = best


@dataclass
class AttemptsRead(Message):
    """Some attempts have been read, by row; or it could not be done."""

    attempts: dict[int, Attempt | None]
    fault: TutorError | None = None


@dataclass
class BestFound(Message):
    """The best attempt is known."""

    id: int


class HistoryScreen(BaseScreen[Chosen | None]):
    """Dismissed with what the learner wants next."""

    BINDINGS: ClassVar[list[BindingType]] = screen_bindings("history")
    HORIZONTAL_BREAKPOINTS = BREAKPOINTS

    def __init__(
        self,
        title: str,
        shelf: AttemptSource,
        starter: str,
        *,
        now: Callable[[], datetime] = lambda: datetime.now().astimezone(),
    ) -> None:
        """`starter`: what the first attempt is compared with."""
        super().__init__()
        self._title = title
        self._shelf = shelf
        self._starter = starter
        self._now = now
        self._attempts: dict[int, Attempt | None] = {}
        self._list = AttemptList(len(shelf.ids), now=now, id="attempts")
        self._head = PlainText("", classes="head")
        self._about = PlainText("", classes="about")
        self._since = PlainText("", classes="since")
        self._changes = DiffView(())
        self._side = VerticalScroll(id="changes", can_focus=False)
        self._shown: tuple[int | None, int | None] | None = None

    def compose(self) -> ComposeResult:
        yield PlainText(f"{count(len(self._shelf.ids), 'attempt')} at {self._title}", classes="title")
        with Container(classes="halves"):
            with Vertical(classes="list"):
                yield PlainText(HEADER, classes="header")
                yield self._list
            with self._side:
                yield self._head
                yield self._about
                yield self._since
                yield self._changes
        yield Static(foot("history"), classes="foot", markup=False)

    def on_mount(self) -> None:
        self._list.focus()
        threading.Thread(target=self._find_best, daemon=True).start()

    # Reading

    @on(AttemptList.Wanted)
    def _read_rows(self, message: AttemptList.Wanted) -> None:
        message.stop()
        threading.Thread(target=self._read, args=(message.rows,), daemon=True).start()

    def _read(self, rows: tuple[int, ...]) -> None:
        try:
            found = {row: self._shelf.read(self._shelf.ids[row]) for row in rows}
        except TutorError as error:
            self.post_message(AttemptsRead({}, error))
        else:
            self.post_message(AttemptsRead(found))

    def _find_best(self) -> None:
        try:
            best = self._shelf.best()
        except TutorError:
            return  # the list says it
        if best is not None:
            self.post_message(BestFound(best.id))

    @on(AttemptsRead)
    def _take(self, message: AttemptsRead) -> None:
        message.stop()
        if message.fault is not None:
            self._about.update(f"! {message.fault.title}")
        self._attempts |= message.attempts
        self._list.show(message.attempts)
        self._show_changes()

    @on(BestFound)
    def _mark_best(self, message: BestFound) -> None:
        message.stop()
        self._list.mark_best(message.id)

    # What changed

    @on(AttemptList.Moved)
    def _look_at(self, message: AttemptList.Moved) -> None:
        message.stop()
        self._show_changes()

    def _show_changes(self) -> None:
        row = self._list.cursor
        last = len(self._shelf.ids) - 1
        if row not in self._attempts or (row < last and row + 1 not in self._attempts):
            return  # it comes
        attempt, before = self._attempts[row], self._attempts.get(row + 1)
        shown = (attempt.id if attempt else None, before.id if before else None)
        if shown == self._shown:
            return
        self._shown = shown
        if attempt is None:
            self._head.update("It cannot be read.")
            self._about.update("")
            self._since.update("")
            self._changes.show(())
            return
        self._head.update(f"Attempt {attempt.number}: {outcome_line(attempt.report)}")
        self._about.update("\n".join(_about(attempt, self._now())))
        words, lines = changes(attempt, before, self._starter, is_first=row == last)
        self._since.update(words)
        self._changes.show(lines)
        self._side.scroll_home(animate=False)

    def action_scroll_changes(self) -> None:
        """Show more of what changed; at its end, from its top again."""
        side = self._side
        if side.scroll_offset.y >= side.max_scroll_y:
            side.scroll_home(animate=False)
        else:
            side.scroll_relative(y=max(1, side.size.height - 2), animate=False)

    # Choosing

    def action_choose(self, what: Literal["report", "text", "device", "compare"]) -> None:
        attempt = self._attempts.get(self._list.cursor)
        if attempt is None:
            return
        if what == "text" and attempt.source is None:
            self._since.update(_NO_TEXT)
            return
        self.dismiss(Chosen(what, attempt))

    def on_click(self, event: events.Click) -> None:
        if event.chain == 2 and event.widget is self._list:
            self.action_choose("report")

    def action_help(self) -> None:
        from gpututor.app.screens.help import TextScreen, help_line

        def keys(width: int) -> Content:
            return Content.assemble(*(help_line(*entry, width) for entry in help_keys("history")))

        self.app.push_screen(TextScreen("Your attempts: their keys", keys))

    def action_close(self) -> None:
        self.dismiss(None)


def _about(attempt: Attempt, now: datetime) -> Iterator[str]:
    """When and where it was, what it took, and the first thing that was wrong."""
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
    """What changed in the file since the attempt before, and words to go above it."""
    if attempt.source is None:
        return _NO_TEXT, ()
    if is_first:
        name, old = "the starter", starter
    elif before is None:
        return "The attempt before cannot be read.", ()
    elif before.source is None:
        return f"The text of attempt {before.number} was not kept.", ()
    else:
        name, old = f"attempt {before.number}", before.source
    if old == attempt.source:
        return f"Since {name} nothing changed in the file.", ()
    if max(old.count("\n"), attempt.source.count("\n")) > MOST_LINES:
        return f"The file changed since {name}; it is too long to be compared here.", ()
    lines = diff_lines(old, attempt.source)
    return f"Since {name}, {count(sum(line.change > 0 for line in lines), 'change')}:", _around_changes(lines)


def _around_changes(lines: tuple[DiffLine, ...]) -> tuple[DiffLine, ...]:
    """The changed lines with some around each change; `⋮` where others are left out."""
    changed = [number for number, line in enumerate(lines) if line.sign != " "]
    near = {number + by for number in changed for by in range(-_CONTEXT, _CONTEXT + 1)}
    kept: list[DiffLine] = []
    last = -1
    for number in sorted(near & set(range(len(lines)))):
        if number != last + 1:
            kept.append(DiffLine(" ", "⋮", 0))
        kept.append(lines[number])
        last = number
    if last != len(lines) - 1:
        kept.append(DiffLine(" ", "⋮", 0))
    return tuple(kept)

"""A list of attempts, newest first: only what is in sight is read and drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from gpututor.app.words import moment
from gpututor.grading.report import Outcome, Status
from gpututor.grading.words import outcome_title
from gpututor.progress.store import Attempt
from gpututor.trace.units import duration, size

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

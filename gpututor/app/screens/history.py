"""The attempts at an exercise: what each came to, and what changed in the file since the one before."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Literal

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from gpututor.app.screens.diff import DiffLine, DiffView, diff_lines
from gpututor.app.screens.once import OnceScreen
from gpututor.app.widgets.attempt_list import HEADER, AttemptList
from gpututor.app.widgets.plain import PlainText
from gpututor.app.words import moment, sentence
from gpututor.errors import TutorError
from gpututor.grading.words import count, device_words, mark, outcome_line
from gpututor.plain_text import shortened
from gpututor.progress.store import Attempt
from gpututor.trace.units import duration, size

MOST_LINES = 3000
"""Longer files are not compared: it would take seconds."""
BREAKPOINTS = [(0, "-below"), (130, "-beside")]
"""From which width on what changed stands where, seen from the list."""
_CONTEXT = 1
"""Lines around a change."""
_KEYS = "Enter report   b take its text back   d device   V compare   Esc back   ? help"
_HELP = (
    ("j k  ↑ ↓", "From attempt to attempt; the best has a mark."),
    ("Enter  o", "Show what the checks said of it; your file stays as it is."),
    ("b", "Put its text into your file. What was there is kept in .backups."),
    ("d", "See what the device did in it."),
    ("V", "Set it beside another attempt."),
    ("Tab", "Show more of what changed in the file."),
    ("Esc  q  a", "Back."),
)
_NO_TEXT = "Its text was not kept: an older gpututor wrote it down."


@dataclass(frozen=True)
class Chosen:
    """What the learner wants to do with which attempt."""

    what: Literal["report", "text", "device", "compare"]
    attempt: Attempt


class Shelf:
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


class HistoryScreen(OnceScreen[Chosen | None]):
    """Dismissed with what the learner wants next."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,a,shift+f6,f18", "close", show=False),
        Binding("enter,o", "choose('report')", show=False),
        Binding("b", "choose('text')", show=False),
        Binding("d,f10", "choose('device')", show=False),
        Binding("V,shift+f11,f23", "choose('compare')", show=False),
        Binding("question_mark,f1", "help", show=False),
        Binding("tab", "scroll_changes", show=False, priority=True),
    ]
    HORIZONTAL_BREAKPOINTS = BREAKPOINTS

    def __init__(
        self,
        title: str,
        shelf: Shelf,
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
        yield Static(_KEYS, classes="foot", markup=False)

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
            return Content.assemble(*(help_line(*entry, width) for entry in _HELP))

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
            got = shortened(failure.got.splitlines()[0], 200)
            line = f", line {failure.line}" if failure.line is not None and f"line {failure.line}" not in got else ""
            yield f"  got {got}{line}"
    elif report.reason:
        yield shortened(report.reason.splitlines()[0], 200)


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

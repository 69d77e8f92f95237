"""Results: verdicts as they arrive, by scenario."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.message import Message
from textual.timer import Timer
from textual.widget import AwaitMount, Widget

from gpututor.app.commands import screen_bindings
from gpututor.app.messages import LineChosen
from gpututor.app.widgets.base import PlainText, restyle
from gpututor.app.widgets.output import (
    DETAIL_CHARACTERS,
    DETAIL_LINES,
    OutputSection,
    bounded,
    details_of,
    everything,
    output_blocks,
)
from gpututor.grading.outcome import Outcome
from gpututor.grading.report_text import RunProgress, device_words, elapsed, mark, outcome_line
from gpututor.text import lines_of

if TYPE_CHECKING:
    from gpututor.grading.events import GradingEvent
    from gpututor.grading.report import Report, Verdict


class ScenarioHeadings:
    """Headings in a list of checks. `line` shows the heading of the topmost checks while it is out of sight itself."""

    def __init__(self, body: VerticalScroll) -> None:
        self.line = PlainText("", classes="machine")
        self._body = body
        self._headings: dict[str, PlainText] = {}

    def follow_scrolling(self) -> None:
        """Update `line` from now on, when it and the list are mounted."""
        for name in ("scroll_y", "virtual_size"):
            self.line.watch(self._body, name, self._update_soon, init=False)

    def begin(self, scenario: str, device: str) -> None:
        if scenario not in self._headings:
            where = device_words(device)
            text = where if where.startswith(scenario) else f"{scenario}: {where}"
            heading = PlainText(text, classes="scenario" if self._headings else "scenario -first")
            self._headings[scenario] = heading
            self._body.mount(heading)
        for heading in self._headings.values():
            heading.display = len(self._headings) > 1

    def forget(self) -> None:
        """Start over, when the headings have been removed with the rest of the list."""
        self._headings.clear()
        self.line.update("")

    def _update_soon(self) -> None:
        self.line.call_after_refresh(self._update)

    def _update(self) -> None:
        top = self._body.scroll_offset.y
        if len(self._headings) < 2:
            return
        mounted = [heading for heading in self._headings.values() if heading.is_attached]
        above = [heading for heading in mounted if heading.virtual_region.y <= top + 1]
        is_hidden = bool(above) and above[-1].virtual_region.y < top
        self.line.update(str(above[-1].content) if is_hidden else "")


CHANGED = "Your file has changed since this run."

_TENSORS = re.compile(r", at line \d+: (.*? on (?:cuda|cpu)[^(]*)(?<! )")
"""The tensors of a device mismatch: `x on cuda:0, self.mean on cpu`."""


class CheckRow(Vertical, can_focus=True):
    """Row of a check. Enter goes to its line; a command of the screen opens and closes the details."""

    BINDINGS = screen_bindings("results", "go_to_line")

    @dataclass(eq=False, repr=False)
    class Opened(Message):
        """The learner opened a check's details, or closed them."""

    def __init__(self, verdict: Verdict, source: str = "") -> None:
        """`source`: the text that was graded; empty if it is not known."""
        super().__init__(classes=f"-{verdict.status.name.lower().replace('_', '-')}")
        self.verdict = verdict
        self._source = source

    @property
    def is_open(self) -> bool:
        return self.has_class("-open")

    def compose(self) -> ComposeResult:
        with Horizontal(classes="sentence"):
            yield PlainText(mark(self.verdict.status), classes="mark")
            yield PlainText(self.verdict.sentence, classes="text")
        if self.verdict.measured:
            with Horizontal(classes="figures"):
                yield PlainText("", classes="label")
                yield PlainText(self.verdict.measured, classes="text")
        lines = lines_of(self._source) if self.verdict.line is not None else []
        for label, text in details_of(self.verdict, lines):
            with Horizontal(classes="detail"):
                yield PlainText(label, classes="label")
                yield PlainText(bounded(text, DETAIL_LINES, DETAIL_CHARACTERS), classes="text")

    def action_open_or_close(self) -> None:
        self.toggle_class("-open")
        self.post_message(self.Opened())
        self.call_after_refresh(self.scroll_visible)

    @property
    def place(self) -> LineChosen | None:
        """The line of the graded text that the check points at, if any."""
        if self.verdict.line is None:
            return None
        error = self.verdict.got if self.verdict.check == "runs" else ""
        tensors = _TENSORS.search(error)  # they are at the end of a long error
        return LineChosen(self.verdict.line, self._source or None, tensors[1] if tensors else error)

    def action_go_to_line(self) -> None:
        if self.place is not None:
            self.post_message(self.place)
        else:
            self.action_open_or_close()

    def on_click(self) -> None:
        if not self.is_open:
            self.action_open_or_close()


_TITLE_STATES = ("-passed", "-failed", "-neutral")
_TICK_S = 0.5
_MOUNT_EVERY_S = 0.2
_MOUNTED_AT_ONCE = 20
"""Rows to mount together. Each layout takes 20 ms, and a flood of verdicts must leave time for keys."""
MOST_ROWS = 60


class Results(Vertical, can_focus=True):
    """Results of one run: a title that stays, and a list that scrolls."""

    BINDINGS = screen_bindings("results", "steps", "page")

    @dataclass(eq=False, repr=False)
    class Progressed(Message):
        """The run continues; `words` describe its progress."""

        words: str
        """The time, the limit, and the newest line that the submission printed: text from any source."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.body = VerticalScroll(classes="body", can_focus=False)
        self.report: Report | None = None
        """The shown report, once it is complete."""
        self._title = PlainText("", classes="title")
        self._device = PlainText("", classes="device")
        self._notice = PlainText("", classes="news")
        """Line above the checks, displayed only if it has words."""
        self._notice.display = False
        self._news = ""
        self._is_older = False
        self._is_stale = False
        """True if the file's text differs from the text that ran."""
        self._headings = ScenarioHeadings(self.body)
        self._source = self._on_device = ""
        self._rows: dict[tuple[str, str], CheckRow] = {}
        self._unshown: set[tuple[str, str]] = set()
        """The checks beyond `MOST_ROWS`, which have no row."""
        self.first_failure: CheckRow | None = None
        """Row of the first finding."""
        self._is_new = False
        """True if the pane was not shown since the results arrived: it then opens at their start."""
        self._progress: RunProgress | None = None
        self._ticking: Timer | None = None
        self._waiting: list[CheckRow] = []
        """Rows that are not mounted yet."""
        self._mounting: Timer | None = None

    def update_node_styles(self, animate: bool = True) -> None:
        restyle(self, (self,), animate=animate)

    def compose(self) -> ComposeResult:
        yield self._title
        yield self._device
        yield self._headings.line
        with self.body:
            yield self._notice

    def on_mount(self) -> None:
        self._headings.follow_scrolling()
        self._ticking = self.set_interval(_TICK_S, self._show_progress, pause=True)
        self._mounting = self.set_interval(_MOUNT_EVERY_S, self._mount_some, pause=True)

    def show_nothing(self, title: str, device: str) -> None:
        self._clear()
        self._show_title(title, "-neutral")
        self._device.update(device)

    def begin(self, source: str, progress: RunProgress, events: Sequence[GradingEvent] = ()) -> None:
        """Show a run of `source` that is under way; `events` are those it has had so far."""
        self._start(source)
        self._progress = progress
        if self._ticking is not None:
            self._ticking.resume()
        self._show_title("… Running. Esc stops it.", "-neutral")
        self._device.update("")
        for event in events:
            self.show_event(event)

    def _start(self, source: str) -> None:
        self._clear()
        self._source = source
        self._on_device = ""

    def _show_progress(self) -> None:
        progress = self._progress
        if progress is None or not progress.is_noticeable:
            return
        if progress.is_loading:
            words = f"Loading PyTorch, {progress.duration}"
        else:
            words = ", ".join(filter(None, [f"Running for {progress.duration}", progress.limit]))
            self._device.update_often(" · ".join(filter(None, [self._on_device, progress.where])))
        self._title.update_often(f"… {words}. Esc stops it.")
        self.post_message(self.Progressed(" · ".join(filter(None, [words, progress.printed]))))

    def _end_progress(self) -> None:
        self._progress = None
        if self._ticking is not None:
            self._ticking.pause()

    def show_event(self, event: GradingEvent) -> None:
        """Show an event of the run."""
        from gpututor.grading.events import CheckFinished, ScenarioStarted  # after the first paint

        if self._progress is not None:
            self._progress.note(event)
        match event:
            case ScenarioStarted(scenario, device):
                self._scenario_started(scenario, device)
            case CheckFinished(verdict):
                self._add_verdict(verdict)

    def _scenario_started(self, scenario: str, device: str) -> None:
        self._on_device = f"On {device_words(device)}"
        self._device.update(self._on_device)
        self._mount_rows(self._waiting)
        self._headings.begin(scenario, device)

    def _add_verdict(self, verdict: Verdict) -> None:
        """Add a verdict, and open the first finding."""
        key = (verdict.scenario, verdict.check)
        if key in self._rows or key in self._unshown:
            return
        is_first_failure = verdict.status.is_finding and self.first_failure is None
        if len(self._rows) >= MOST_ROWS and not is_first_failure:
            self._unshown.add(key)
            return
        row = CheckRow(verdict, self._source)
        if is_first_failure:
            self.first_failure = row
            row.add_class("-open")
        self._rows[key] = row
        self._waiting.append(row)
        if self._mounting is not None:
            self._mounting.resume()

    async def _mount_some(self) -> None:
        with self.app.batch_update():  # else everything is laid out twice: for the rows, and for their contents
            await self._mount_rows(self._waiting[:_MOUNTED_AT_ONCE])
        if not self._waiting and self._mounting is not None:
            self._mounting.pause()

    def _mount_rows(self, rows: list[CheckRow]) -> AwaitMount:
        self._waiting = self._waiting[len(rows) :]
        return self.body.mount_all(rows)

    def stop(self) -> None:
        self._end_progress()
        self._device.update(self._on_device)
        self._show_title("■ Stopped. Nothing was recorded.", "-neutral")

    def fail(self) -> None:
        self._end_progress()
        self._show_title("! The grader failed. Nothing was recorded.", "-neutral")

    def finish(self, report: Report, news: str = "", *, older: bool = False) -> None:
        """Show the report and, above it, `news`. `older`: the run is not the newest."""
        self._end_progress()
        self.report = report
        self._show_title(outcome_line(report), {0: "-passed", 1: "-failed"}.get(report.outcome.exit_code, "-neutral"))
        self._device.update(_where(report))
        for verdict in report.verdicts:
            self._add_verdict(verdict)
        self._mount_rows(self._waiting)
        if self._unshown:
            self.body.mount(PlainText(f"… {len(self._unshown):,} more checks: v shows all", classes="reason"))
        self._news, self._is_older = news, older
        self._show_notice()
        self.body.mount_all(output_blocks(report))
        self._is_new = True
        self.call_after_refresh(self._show_start)

    def compare_with(self, text: str) -> None:
        """Show a notice if the learner's file, now `text`, differs from the text that ran."""
        stale = self.report is not None and text != self._source
        if stale != self._is_stale:
            self._is_stale = stale
            self._show_notice()

    def _show_notice(self) -> None:
        # The news of an older run already names the attempt: a note on changes would add nothing.
        stale = self._is_stale and not self._is_older
        words = "\n".join(filter(None, [CHANGED if stale else "", self._news]))
        self._notice.set_class(stale or self._is_older, "-older")
        self._notice.update(words)
        self._notice.display = bool(words)

    def offer(self, words: str) -> None:
        """Add words to the line of the device."""
        shown = str(self._device.content)
        if words not in shown:
            self._device.update(f"{shown}. {words}" if shown else words)

    def show_report(self, report: Report, source: str, news: str, *, older: bool = False) -> None:
        self._start(source)
        for run in report.runs:
            self._scenario_started(run.scenario, run.device)
            for verdict in report.verdicts:
                if verdict.scenario == run.scenario:
                    self._add_verdict(verdict)
        self.finish(report, news, older=older)

    @property
    def rows(self) -> tuple[CheckRow, ...]:
        """Rows of the first `MOST_ROWS` verdicts, in the order in which they came, and of the first failure."""
        return tuple(self._rows.values())

    @property
    def has_passed(self) -> bool:
        return self.report is not None and self.report.outcome is Outcome.PASSED

    @property
    def sections(self) -> list[OutputSection]:
        """The complete report, without limits on texts; empty until the run is over."""
        return everything(self.report, self._source) if self.report is not None else []

    @property
    def section(self) -> int:
        """Index of the section of the focused check; 0 if none has the focus."""
        focused = [key for key, row in self._rows.items() if row.has_focus]
        verdicts = self.report.verdicts if self.report is not None else ()
        return next((at for at, verdict in enumerate(verdicts, 1) if (verdict.scenario, verdict.check) in focused), 0)

    def take_focus(self) -> None:
        """Focus a row, unless one has the focus: the first failure, else the first row."""
        if not any(row.has_focus for row in self._rows.values()):
            self._mount_rows(self._waiting)
            row = self.first_failure or next(iter(self._rows.values()), None)
            (row if row is not None and row.is_attached else self).focus(scroll_visible=False)
        if self._is_new:
            self._is_new = False
            self.call_after_refresh(self._show_start)

    def look_at(self, row: CheckRow) -> None:
        self._is_new = False
        row.focus()

    def _show_start(self) -> None:
        """Scroll to the top, or to the first failure if it does not fit on the first page."""
        if not all(row.virtual_region.height for row in self._steps()):
            if self.is_on_screen:  # its rows are not laid out yet
                self.call_after_refresh(self._show_start)
            return
        failure = self.first_failure
        if failure is None or failure.virtual_region.bottom <= self.body.scrollable_content_region.height:
            self.body.scroll_home(animate=False)
        else:
            self.body.scroll_to(y=failure.virtual_region.y, animate=False)

    def action_step(self, by: int) -> None:
        rows, focused = self._steps(), self.screen.focused
        position = rows.index(focused) + by if focused in rows else 0
        if 0 <= position < len(rows):
            rows[position].focus()
        else:
            self.body.scroll_relative(y=by * 3 if rows else by, animate=False)

    def action_end(self, which: int) -> None:
        """Go to the first (0) or the last (-1) check."""
        if rows := self._steps():
            rows[which].focus(scroll_visible=False)
        (self.body.scroll_end if which else self.body.scroll_home)(animate=False)

    def action_page(self, by: int) -> None:
        (self.body.scroll_page_down if by > 0 else self.body.scroll_page_up)(animate=False)

    def _steps(self) -> list[Widget]:
        return [widget for widget in self.body.children if isinstance(widget, CheckRow)]

    def _show_title(self, title: str, state: str) -> None:
        self._title.update(title)
        self._title.update_classes({other: other == state for other in _TITLE_STATES})

    def _clear(self) -> None:
        self._end_progress()
        self.report = None
        self._rows.clear()
        self._unshown.clear()
        self.first_failure = None
        self._waiting.clear()
        self._headings.forget()
        self._news, self._is_older, self._is_stale = "", False, False
        self._show_notice()
        self.body.remove_children([child for child in self.body.children if child is not self._notice])
        self.body.scroll_home(animate=False)


def _where(report: Report) -> str:
    """Describe the device and the time; several devices are named by the headings above their checks."""
    match report.runs:
        case ():
            return ""
        case (run,):
            instead = f" instead of {run.own_gpu}" if run.own_gpu else ""
            return f"On {device_words(run.device)}{instead}, in {elapsed(report)}"
        case runs:
            return f"On {len(runs)} kinds of machine, in {elapsed(report)}"

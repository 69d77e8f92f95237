"""What the checks say: verdicts as they arrive, grouped by scenario, and what the learner's file printed."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget

from gpututor.app.widgets.plain import PlainText
from gpututor.app.widgets.verdict_row import VerdictRow
from gpututor.grading.report import Report, RunSummary, Verdict
from gpututor.grading.words import device_words, elapsed, outcome_line, to_look_at
from gpututor.plain_text import lines_of

SHOWN_OUTPUT_LINES = 200
_TITLE_STATES = ("-passed", "-failed", "-neutral")


class Results(VerticalScroll, can_focus=True):
    """Results of one run. Told everything; asks nothing."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "step(1)", show=False),
        Binding("k,up", "step(-1)", show=False),
        Binding("g,home", "first", show=False),
        Binding("G,end", "last", show=False),
    ]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._title = PlainText("", classes="title")
        self._device = PlainText("", classes="device")
        self._news = PlainText("", classes="news")
        self._source: list[str] = []
        self._rows: dict[tuple[str, str], VerdictRow] = {}
        self._headings: dict[str, PlainText] = {}
        self._is_new = False
        """Whether the pane was not looked at since the results came: then it opens at their start."""

    def compose(self) -> ComposeResult:
        yield self._title
        yield self._device
        yield self._news

    def show_nothing(self, title: str, device: str) -> None:
        """Nothing ran yet."""
        self._clear()
        self._say(title, "-neutral")
        self._device.update(device)

    def begin(self, source: str) -> None:
        """A run begins on the text `source`."""
        self._clear()
        self._source = lines_of(source)
        self._say("… Running. Esc stops it.", "-neutral")
        self._device.update("")

    def scenario_started(self, scenario: str, device: str) -> None:
        self._device.update(f"On {device_words(device)}")
        if scenario not in self._headings:
            where = device_words(device)
            text = where if where.startswith(scenario) else f"{scenario}: {where}"
            self._headings[scenario] = PlainText(text, classes="scenario")
            self.mount(self._headings[scenario])
        for heading in self._headings.values():
            heading.display = len(self._headings) > 1

    def add_verdict(self, verdict: Verdict) -> None:
        """Show one more verdict; the first one that did not pass is opened."""
        key = (verdict.scenario, verdict.check)
        if key in self._rows:
            return
        line = verdict.line or 0
        row = VerdictRow(verdict, self._source[line - 1] if 0 < line <= len(self._source) else "")
        if verdict.status.has_details and self.first_failure is None:
            row.open()
        self._rows[key] = row
        self.mount(row)

    def stop(self) -> None:
        """The run was cancelled."""
        self._say("■ Stopped. Nothing was recorded.", "-neutral")

    def broke(self) -> None:
        self._say("! The grader broke. Nothing was recorded.", "-neutral")

    def finish(self, report: Report, news: str = "") -> None:
        """The run ended; `news` is what the learner should know beyond the report."""
        state = {0: "-passed", 1: "-failed"}.get(report.outcome.exit_code, "-neutral")
        self._say(outcome_line(report), state)
        self._device.update(_where(report))
        for verdict in report.verdicts:
            self.add_verdict(verdict)
        self._news.update(news)
        self._news.display = bool(news)
        for block in self._output_blocks(report):
            self.mount(block)
        self._is_new = True
        self.call_after_refresh(self._show_start)

    def show_report(self, report: Report, source: str, news: str) -> None:
        """Show a whole report of an earlier run."""
        self.begin(source)
        for run in report.runs:
            self.scenario_started(run.scenario, run.device)
            for verdict in report.verdicts:
                if verdict.scenario == run.scenario:
                    self.add_verdict(verdict)
        self.finish(report, news)

    @property
    def rows(self) -> tuple[VerdictRow, ...]:
        """One row a verdict, in the order in which they came."""
        return tuple(self._rows.values())

    @property
    def first_failure(self) -> VerdictRow | None:
        """The first check that did not pass, for whatever reason, and has something to say."""
        return next((row for row in self._rows.values() if row.verdict.status.has_details), None)

    def take_focus(self) -> None:
        """Let the keys go to a row: to the one that the learner was on, else the first failure, else the first."""
        if not any(row.has_focus for row in self._rows.values()):
            (self.first_failure or next(iter(self._rows.values()), self)).focus(scroll_visible=False)
        if self._is_new:
            self._is_new = False
            self.call_after_refresh(self._show_start)

    def look_at(self, row: VerdictRow) -> None:
        """Put the cursor on a check."""
        self._is_new = False
        row.focus()

    def _show_start(self) -> None:
        """Scroll to the top; to the first failure when the whole of it cannot be seen from there."""
        failure = self.first_failure
        if failure is None or failure.virtual_region.bottom <= self.scrollable_content_region.height:
            self.scroll_home(animate=False)
        else:
            self.scroll_to(y=failure.virtual_region.y, animate=False)

    def action_step(self, by: int) -> None:
        rows = self._steps()
        if not rows:
            self.scroll_relative(y=by, animate=False)
            return
        focused = self.screen.focused
        position = rows.index(focused) + by if focused in rows else 0
        if not 0 <= position < len(rows):
            self.scroll_relative(y=by * 3, animate=False)
            return
        rows[position].focus()

    def action_first(self) -> None:
        self.scroll_home(animate=False)
        for row in self._steps()[:1]:
            row.focus()

    def action_last(self) -> None:
        for row in self._steps()[-1:]:
            row.focus()
        self.scroll_end(animate=False)

    def _steps(self) -> list[Widget]:
        return [widget for widget in self.children if isinstance(widget, VerdictRow)]

    def _say(self, title: str, state: str) -> None:
        self._title.update(title)
        for other in _TITLE_STATES:
            self._title.set_class(other == state, other)

    def _clear(self) -> None:
        self._rows.clear()
        self._headings.clear()
        self._news.display = False
        self.remove_children([child for child in self.children if child not in (self._title, self._device, self._news)])
        self.scroll_home(animate=False)

    def _output_blocks(self, report: Report) -> list[Widget]:
        blocks: list[Widget] = []
        for text in filter(None, [report.reason, *to_look_at(report)]):
            blocks.append(PlainText(text, classes="reason"))
        for run in report.runs:
            where = f" ({run.scenario})" if len(report.runs) > 1 else ""
            if run.traceback:
                blocks.append(PlainText(f"Where it stopped{where}", classes="heading"))
                blocks.append(PlainText(run.traceback.rstrip(), classes="output"))
            if run.output:
                blocks.append(PlainText(f"What your file printed{where}", classes="heading"))
                blocks.append(PlainText(bounded_output(run), classes="output"))
        return blocks


def _where(report: Report) -> str:
    """On which device, and how long; several machines are named by the headings above their checks."""
    match report.runs:
        case ():
            return ""
        case (run,):
            return f"On {device_words(run.device)}, in {elapsed(report)}"
        case runs:
            return f"On {len(runs)} machines, in {elapsed(report)}"


def bounded_output(run: RunSummary) -> str:
    """The printed text, cut to what a person would scroll through."""
    lines = run.output.splitlines()
    shown = [line.expandtabs(4) for line in lines[:SHOWN_OUTPUT_LINES]]
    if len(lines) > SHOWN_OUTPUT_LINES:
        shown.append(f"… {len(lines) - SHOWN_OUTPUT_LINES} more lines are not shown")
    if run.output_dropped_bytes:
        shown.append(f"… {run.output_dropped_bytes:,} more bytes were not kept")
    return "\n".join(shown)

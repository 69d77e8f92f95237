"""Two recorded calls compared: the pair, and pages with its figures, lines and timelines."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from gpututor.app.commands import screen_bindings
from gpututor.app.editor.line_costs import rows_now
from gpututor.app.messages import LineChosen
from gpututor.app.trace_view.chart import Chart
from gpututor.app.trace_view.lanes import TimeWindow
from gpututor.app.trace_view.lines_tab import time_of
from gpututor.app.trace_view.model import OtherRun, RunView, code, first_view, line_of, load
from gpututor.app.trace_view.tabs import ListTab
from gpututor.app.trace_view.times_tab import device_shares, stacked
from gpututor.app.widgets.base import PlainText
from gpututor.app.widgets.output import ScrollableText
from gpututor.grading.recording import LineCost
from gpututor.grading.report import Status
from gpututor.grading.report_text import mark
from gpututor.text import escape_control_chars
from gpututor.trace.comparison import AmountDifference, amounts_of, counted, differences, in_one_sentence, ratio_words
from gpututor.trace.formatting import duration, same_time
from gpututor.trace.text import describe_event

_PALE = "$foreground-muted"
_FIGURE, _NAME, _STATUS = 11, 18, 16


@dataclass(frozen=True)
class CasePair:
    """The same case of two attempts."""

    left: RunView
    other: OtherRun
    differences: tuple[AmountDifference, ...] = ()
    """Empty until the traces have been read."""

    @property
    def right(self) -> RunView:
        return self.other.view

    @property
    def sides(self) -> tuple[tuple[str, RunView], tuple[str, RunView]]:
        """Both views with their short names."""
        return (f"attempt {self.left.attempt}", self.left), (self.other.short, self.right)

    @property
    def same_inputs(self) -> bool:
        """True if both got inputs of the same shapes; each grading draws its own."""
        return [call.words for call in self.left.case.calls] == [call.words for call in self.right.case.calls]


def pair_of(left: RunView, other: OtherRun) -> CasePair | None:
    """Pair the case of `left` with the same case of `other`; return None if `other` has no such run or case."""
    runs = other.view.recording.runs
    number = next((at for at, run in enumerate(runs) if run.scenario == left.run.scenario), None)
    if number is None or not runs[number].calls:
        return None
    view = other.view.of_run(number)
    return CasePair(left, replace(other, view=view.of_case(min(left.case_number, len(view.cases) - 1))))


def why_not(left: RunView, other: OtherRun, *, another: bool) -> str:
    """Explain why `other` has no pair for `left`, and what to do; `another`: there are more attempts to choose from."""
    scenario = escape_control_chars(left.run.scenario)
    recorded = dict.fromkeys(run.scenario for run in other.view.recording.runs if run.calls)
    if any(run.scenario == left.run.scenario for run in other.view.recording.runs):
        missing = f"In “{scenario}”, no call of {other.short} was recorded: its code stopped before the first call."
    else:
        missing = f"{other.short.capitalize()} did not run in “{scenario}”."
    if recorded:
        missing += f" Calls were recorded in {', '.join(f'“{escape_control_chars(name)}”' for name in recorded)}."
    ways = []
    if any(run.scenario in recorded for run in left.recording.runs):
        ways.append("s shows another scenario, which both may have.")
    if another:
        ways.append("a compares with another attempt.")
    ways.append("Run the checks again on the same devices to compare the last two runs.")
    return f"{missing}\n\n" + "\n".join(ways)


def load_pair(pair: CasePair) -> CasePair:
    """Load the traces of both, and compare them. For a thread."""
    left, right = (view if view.loaded is not None else load(view) for view in (pair.left, pair.right))
    amounts = []
    for view in (left, right):
        processes = view.loaded.processes if view.loaded is not None else ()
        peak_bytes = max(call.peak_bytes for call in view.case.calls)
        elapsed = view.case.work_ns if view.run.times else 0
        amounts.append(amounts_of([process.rows for process in processes], elapsed, peak_bytes))
    return CasePair(left, replace(pair.other, view=right), differences(*amounts))


def baselines_of(view: RunView) -> Iterator[OtherRun]:
    """Yield the files that the checks compared the attempt with."""
    for name in dict.fromkeys(baseline.name for run in view.recording.runs for baseline in run.baselines):
        runs = []
        for run in view.recording.runs:
            calls = next((baseline.calls for baseline in run.baselines if baseline.name == name), ())
            runs.append(replace(run, calls=calls, baselines=(), lines=()))
        recording = replace(view.recording, runs=tuple(runs))
        theirs = first_view(recording, attempt=view.attempt, title=view.title, file_name=name, source=None)
        if theirs is not None:
            shown = escape_control_chars(name)
            yield OtherRun(f"{shown}, which the checks compare with", shown, theirs, is_baseline=True)


def figures_page() -> ScrollableText[CasePair]:
    """Create the page: amounts in columns, with the differences in words."""
    return ScrollableText(_figures, id="figures-page")


def _figures(pair: CasePair, width: int) -> Iterator[Content]:
    (ours, left), (theirs, right) = pair.sides
    summary = in_one_sentence(pair.differences) if pair.differences else "neither used a device in this call"
    yield Content(f"{summary[:1].upper()}{summary[1:]}.").stylize("bold")
    outcomes = list(_outcomes(pair, width))
    yield from outcomes
    if not pair.same_inputs:
        yield Content("Their inputs differ in shape: each grading draws its own.").stylize("$text-warning")
    if not pair.differences:
        if not outcomes and not pair.other.is_baseline:
            yield Content("Both have the same check results.")
        if len(left.cases) > 1:
            yield Content("c shows another call.").stylize(_PALE)
        return
    yield Content("")
    yield Content(f"{'this call':<{_NAME}}{ours:>{_FIGURE}}  {theirs:>{_FIGURE}}").stylize(_PALE)
    for row in pair.differences:
        color = {1: "$text-success", -1: "$text-warning"}.get(row.better, _PALE)
        figures = f"{row.name:<{_NAME}}{row.left:>{_FIGURE}}  {row.right:>{_FIGURE}}  "
        yield Content.assemble(figures, (row.words, color))
    times = (left.run.elapsed_ns, right.run.elapsed_ns)
    if left.run.times and right.run.times and all(times) and len(left.cases) > 1:
        figures = f"{duration(times[0]):>{_FIGURE}}  {duration(times[1]):>{_FIGURE}}"
        yield Content(f"{'all calls':<{_NAME}}{figures}  {ratio_words(*times)}")
    yield Content("")
    yield from _shares(pair, width)


def _shares(pair: CasePair, width: int) -> Iterator[Content]:
    rows = [(name, *row) for name, view in pair.sides for row in device_shares(view)]
    if not rows:
        return
    yield Content("Where the time went, on one scale").stylize("bold")
    several = len({device for _, device, _ in rows}) > 1
    longest = max(1, *(shares.whole for _, _, shares in rows))
    labels = [f"{name} {device}" if several else name for name, device, _ in rows]
    widest = max(map(len, labels))
    for label, (_, _, shares) in zip(labels, rows, strict=True):
        yield from stacked(f"{label:<{widest}}  ", shares, max(4, (width - widest - 2) * shares.whole // longest))
    for name, view in pair.sides:
        if view.loaded is not None and not view.loaded.used_a_device:
            yield Content(f"{name}: no device did anything in this call.")


def _outcomes(pair: CasePair, width: int) -> Iterator[Content]:
    """Yield the outcomes of both, then the checks with different verdicts; nothing if all are the same."""
    (ours, left), (theirs, right) = pair.sides
    if pair.other.is_baseline or not left.outcome or not right.outcome:
        return
    mine, others = (
        {(verdict.check, verdict.sentence, verdict.scenario): verdict.status for verdict in view.verdicts}
        for view in (left, right)
    )
    different = [key for key in mine | others if mine.get(key) is not others.get(key)]
    if left.outcome == right.outcome and not different:
        return
    yield Content(f"{ours:<{_STATUS}}{left.outcome}")
    yield Content(f"{theirs:<{_STATUS}}{right.outcome}")
    if different:
        yield Content("")
        yield Content(f"{ours:<{_STATUS}}{theirs:<{_STATUS}}checks that differ").stylize(_PALE)
    for key in different:
        _, sentence, scenario = key
        color = "$text-success" if mine.get(key) is Status.PASSED else "$text-warning"
        words = f"{escape_control_chars(sentence)} ({escape_control_chars(scenario)})"
        first, *more = textwrap.wrap(words, max(20, width - 2 * _STATUS))
        yield Content.assemble((_status(mine.get(key)), color), _status(others.get(key)), first)
        yield from (Content(f"{'':<{2 * _STATUS}}{line}") for line in more)


def _status(status: Status | None) -> str:
    return f"{mark(status) if status is not None else '-':<{_STATUS}}"


@dataclass(frozen=True)
class LinePair:
    """A line of the left file, of the right file, or the same line of both."""

    text: str
    """The line without its indent."""
    left: LineCost | None
    right: LineCost | None
    left_line: int | None
    """The number of the line, from 1; None if the left file does not have it."""
    right_line: int | None

    @property
    def change_ns(self) -> int:
        """Extra time of the left line; 0 if both times read the same."""
        left, right = cost_ns(self.left), cost_ns(self.right)
        return 0 if same_time(left, right) else left - right

    @property
    def words(self) -> str:
        """`10 copies fewer, 3 waits fewer`, of the left line compared with the right one."""
        kinds = {"kernel": "kernels", "copy": "copies", "wait": "waits"}
        sides = ((kind, getattr(self.left, field, 0), getattr(self.right, field, 0)) for kind, field in kinds.items())
        return ", ".join(counted(kind, ours, theirs) for kind, ours, theirs in sides if ours != theirs)


def cost_ns(cost: LineCost | None) -> int:
    """Return the time on devices, or of waits if it is longer; 0 for None."""
    return time_of(cost) if cost is not None else 0


def line_pairs(
    left: Sequence[str], left_costs: Sequence[LineCost], right: Sequence[str], right_costs: Sequence[LineCost]
) -> list[LinePair]:
    """Pair the lines that cost anything in either file by their text; the largest difference comes first."""
    ours, theirs = {cost.line: cost for cost in left_costs}, {cost.line: cost for cost in right_costs}
    same = {line + 1: other + 1 for line, other in rows_now(left, right).items()}
    numbers: list[tuple[int | None, int | None]] = [(line, same.get(line)) for line in range(1, len(left) + 1)]
    numbers += [(None, line) for line in range(1, len(right) + 1) if line not in same.values()]
    pairs = [
        LinePair((left[a - 1] if a else right[(b or 1) - 1]).strip(), ours.get(a or 0), theirs.get(b or 0), a, b)
        for a, b in numbers
        if a in ours or b in theirs
    ]
    return sorted(pairs, key=lambda pair: (-abs(pair.change_ns), -max(cost_ns(pair.left), cost_ns(pair.right))))


class PairLinesPage(ListTab):
    """The lines of both files that cost anything, the largest difference first."""

    def __init__(self) -> None:
        super().__init__()
        self._head = PlainText("")
        self._words = PlainText("", classes="words")
        self._pair: CasePair | None = None
        self._lines: list[LinePair] = []

    def compose(self) -> ComposeResult:
        yield self._head
        yield self.list
        yield self._words

    def show(self, pair: CasePair) -> None:
        self._pair, left, right = pair, pair.left, pair.right
        has_lines = left.source is not None and right.source is not None and not pair.other.is_baseline
        costs = (left.source_lines, left.run.lines, right.source_lines, right.run.lines)
        self._lines = line_pairs(*costs) if has_lines else []
        self._draw()

    def on_resize(self, event: events.Resize) -> None:
        self._draw()

    def _draw(self) -> None:
        pair, width = self._pair, self.list.scrollable_content_region.width or self.size.width
        if pair is None or not width:
            return
        at = self.list.highlighted
        if pair.other.is_baseline:
            self._head.update(f"The lines of {pair.other.short} are the author's, and are not shown.")
        elif not self._lines:
            self._head.update("No line of either file did anything on a device, or the texts were not saved.")
        else:
            numbers = (pair.left.attempt, pair.right.attempt)
            heads = "".join(f"{f'line of {number}':>10}{'time':>9} " for number in numbers)
            self._head.update(Content(f"{heads}   all calls of the run together").stylize(_PALE))
        self.list.set_options(Option(_line_row(line, width)) for line in self._lines)
        self.list.highlighted = min(at or 0, len(self._lines) - 1) if self._lines else None
        self._describe()

    @on(OptionList.OptionHighlighted)
    def _describe(self) -> None:
        """Describe the difference at the line with the cursor."""
        at, pair = self.list.highlighted, self._pair
        if at is None or pair is None or not self._lines:
            self._words.update("")
            return
        line, change = self._lines[at], self._lines[at].change_ns
        only = pair.left if line.right_line is None else pair.right if line.left_line is None else None
        where = "Both have this line" if only is None else f"Only attempt {only.attempt} has this line"
        time = f"{duration(abs(change))} {'more' if change > 0 else 'less'}" if change else ""
        words = ", ".join(filter(None, (time, line.words))) or "no difference"
        self._words.update(f"{where}: in attempt {pair.left.attempt}, {words}.")

    def line_at(self, position: int) -> int | None:
        return self._lines[position].left_line  # the left file is the one in the editor


def _line_row(pair: LinePair, width: int) -> Content:
    head = ""
    for line, cost in ((pair.left_line, pair.left), (pair.right_line, pair.right)):
        head += f"{line or '-':>10}{duration(cost_ns(cost)) if cost_ns(cost) else '':>9} "
    change = pair.change_ns
    sign = ("= ", _PALE) if not change else ("+ ", "$text-warning") if change > 0 else ("− ", "$text-success")
    return Content.assemble(head, sign, Content(code(pair.text)).truncate(max(8, width - len(head) - 2), ellipsis=True))


class TimelinesPage(Vertical):
    """Both timelines above each other, on one scale; zooming and panning moves both."""

    BINDINGS = screen_bindings("timelines", "other")
    KEYS = "timelines"

    def __init__(self) -> None:
        super().__init__()
        self.charts = (Chart(id="upper"), Chart(id="lower"))
        self._names = (PlainText("", classes="name"), PlainText("", classes="name"))
        self._words = PlainText("", classes="words")
        self._pair: CasePair | None = None

    def compose(self) -> ComposeResult:
        for name, chart in zip(self._names, self.charts, strict=True):
            yield name
            yield chart
        yield self._words

    def show(self, pair: CasePair) -> None:
        self._pair = pair
        pictures = [view.loaded.picture if view.loaded is not None else None for _, view in pair.sides]
        span = max((picture.finish - picture.begin for picture in pictures if picture is not None), default=1)
        rows = zip(pair.sides, pictures, self._names, self.charts, strict=True)
        for (name, view), picture, heading, chart in rows:
            chart.display = picture is not None and bool(picture.lanes)
            if picture is None or not chart.display:
                missing = escape_control_chars(" ".join(view.loaded.missing)) if view.loaded is not None else ""
                heading.update(f"{name}: there is nothing to draw. {missing}")
                continue
            heading.update(f"{name}, {duration(view.case.work_ns)} {view.run.times}" if view.run.times else name)
            chart.show(picture)
            chart.window = TimeWindow.whole(picture.begin, picture.begin + span, chart.columns)
            chart.redraw()
        self._describe(self.charts[0])

    def take_focus(self) -> None:
        chart = next((chart for chart in self.charts if chart.display), None)
        if chart is not None:
            chart.focus()

    @property
    def _current(self) -> Chart:
        """The timeline with the focus, or else the upper one."""
        return next((chart for chart in self.charts if chart.has_focus), self.charts[0])

    def action_other(self) -> None:
        upper, lower = self.charts
        (lower if upper.has_focus and lower.display else upper).focus()

    @on(events.DescendantFocus)
    def _describe_current(self) -> None:
        self._describe(self._current)

    @on(Chart.Moved)
    def _follow(self, message: Chart.Moved) -> None:
        message.stop()
        chart = self._current
        other = self.charts[1 - self.charts.index(chart)]
        begin = other.window.least + chart.window.begin - chart.window.least
        window = replace(other.window, begin=begin, end=begin + chart.window.span)
        if other.display and window != other.window:
            other.window = window
            other.redraw()
        self._describe(chart, message.news)

    @on(Chart.Entered)
    def _choose_line(self, message: Chart.Entered) -> None:
        message.stop()
        chart = self._current
        if self._pair is None or chart.picture is None or chart is not self.charts[0]:
            self._words.update("Only the upper attempt's lines are in your editor." if self._pair else "")
            return
        line = line_of(describe_event(chart.picture, chart.lane, chart.number).place, self._pair.left.file_name)
        if line is None:
            self._words.update("No line of your file caused this.")
        else:
            self.post_message(LineChosen(line))

    def _describe(self, chart: Chart, news: str = "") -> None:
        """Describe the event under the cursor in a line or two below the timelines."""
        if self._pair is None or chart.picture is None or not chart.display:
            self._words.update("")
            return
        view = self._pair.sides[self.charts.index(chart)][1]
        event = describe_event(chart.picture, chart.lane, chart.number, view.run.times)
        line = line_of(event.place, view.file_name)
        where = f" · line {line}  {code(view.source_line(line)).strip()}" if line is not None else ""
        self._words.update(f"{f'{news} ' if news else ''}{event.title}{where}\n{' · '.join(event.facts[:1])}")

"""The tab of times: best, previous and baseline."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from gpututor.app.trace_view.model import RunView, cases_of
from gpututor.grading.recording import BaselineRecording, RunRecording
from gpututor.text import escape_control_chars
from gpututor.trace.formatting import bar, duration, parts, share

if TYPE_CHECKING:
    from gpututor.app.trace_view.model import RunView
    from gpututor.grading.report import Verdict
    from gpututor.trace.arrays import TimeShares


Shown = TypeVar("Shown")
_LEAST_WIDTH = 40


class ScrollableText(VerticalScroll, Generic[Shown], can_focus=True):
    """Lines of what is shown, drawn anew for each width."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll_down", show=False),
        Binding("k", "scroll_up", show=False),
        Binding("g", "scroll_home", show=False),
        Binding("G", "scroll_end", show=False),
    ]
    KEYS = "↑↓ scroll"

    def __init__(self, lines: Callable[[Shown, int], Iterator[Content]], *, id: str | None = None) -> None:
        """`lines` draws what is shown, so many columns wide."""
        super().__init__(id=id)
        self._lines = lines
        self._text = Static("")
        self._shown: Shown | None = None

    def compose(self) -> ComposeResult:
        yield self._text

    def show(self, shown: Shown) -> None:
        self._shown = shown
        self._draw()

    def take_focus(self) -> None:
        self.focus()

    def on_resize(self, event: events.Resize) -> None:
        self._draw()

    def _draw(self) -> None:
        if self._shown is not None:
            width = max(_LEAST_WIDTH, self.scrollable_content_region.width)
            self._text.update(Content("\n").join(self._lines(self._shown, width)))


_TIME_STYLE = r"[\d.,]+ (?:ns|µs|ms|s)"
_SPREAD = rf"({_TIME_STYLE})(?: \(({_TIME_STYLE}) to ({_TIME_STYLE})\))?"
_MEASURED = re.compile(
    rf"([\d.]+) × the baseline's time \(([\d.]+) to ([\d.]+) in the middle half of (\d+) pairs\): "
    rf"{_SPREAD} a call against {_SPREAD}, measured"
)
_MODELLED = re.compile(rf"[\d.]+ × the baseline's time: {_TIME_STYLE} against ({_TIME_STYLE})")
_AT_MOST = re.compile(r"It takes at most ([\d.]+) × the time of ")
_AS_FAST = re.compile(r"It is at least ([\d.]+) × as fast as ")
_NO_LONGER = re.compile(r"It takes no longer than ")
_UNITS = {"ns": 1, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


@dataclass(frozen=True)
class TimeBar:
    """One time, in nanoseconds."""

    words: str
    time_ns: int
    note: str = ""
    role: str = "other"
    """`mine`, `baseline`, `other`, `floor` or `limit`."""
    low_ns: int = 0
    high_ns: int = 0
    """Of a measured time: between what the middle half of the measurements lies; 0 where that is not known."""


@dataclass(frozen=True)
class Bars:
    """Times on one scale, under a heading."""

    heading: str
    bars: tuple[TimeBar, ...]


def all_bars(view: RunView) -> tuple[Bars, ...]:
    """Everything that is known of the view's run."""
    run = view.run
    speeds = [one for one in view.verdicts if one.scenario == run.scenario and limit_of(one.sentence) is not None]
    found = []
    if run.times and run.elapsed_ns:
        found.append(Bars(_heading(run), tuple(_whole(view, run, speeds))))
    found += [bars for one in speeds if (bars := _measured_bars(one)) is not None]
    cases = cases_of(run)
    if run.times and run.elapsed_ns and len(cases) > 1:
        found.append(Bars(f"Call by call, {run.times}", tuple(_by_case(view, run))))
    return tuple(found)


def limit_of(sentence: str) -> float | None:
    """What a speed check allows, as a multiple of its baseline's time; None for any other sentence."""
    if found := _AT_MOST.match(sentence):
        return float(found[1])
    if found := _AS_FAST.match(sentence):
        return 1 / float(found[1])
    return 1.0 if _NO_LONGER.match(sentence) else None


def nanoseconds(words: str) -> int:
    """`1.25 ms` as a number."""
    number, _, unit = words.partition(" ")
    return round(float(number.replace(",", "")) * _UNITS[unit])


def _heading(run: RunRecording) -> str:
    number = len(cases_of(run))
    return f"{f'The {number} calls together' if number > 1 else 'The call'}, {run.times}"


def _whole(view: RunView, run: RunRecording, speeds: Iterable[Verdict]) -> Iterator[TimeBar]:
    first = run.baselines[0] if run.baselines else None
    yield TimeBar(f"this attempt ({view.attempt})", run.elapsed_ns, _beside(run.elapsed_ns, first), "mine")
    for one in run.baselines:
        yield TimeBar(escape_control_chars(one.name), one.elapsed_ns, "what it is compared with", "baseline")
    for other in view.others:
        theirs = next((each for each in other.recording.runs if each.scenario == run.scenario), None)
        if theirs is not None and theirs.elapsed_ns and theirs.times == run.times:
            yield TimeBar(other.words, theirs.elapsed_ns, _of_other(run, theirs))
    for verdict in speeds:
        baseline = _its_baseline(run, verdict)
        if baseline is not None and run.times == "modelled":
            limit = limit_of(verdict.sentence) or 1.0
            note = f"{limit:.3g} × {escape_control_chars(baseline.name)}"
            yield TimeBar("allowed", round(limit * baseline.elapsed_ns), note, "limit")
    if run.floor_ns:
        yield TimeBar("the floor", run.floor_ns, "no program can be faster here", "floor")


def _beside(time_ns: int, baseline: BaselineRecording | None) -> str:
    """`0.09 × baseline.py`"""
    if baseline is None or not baseline.elapsed_ns:
        return ""
    return f"{time_ns / baseline.elapsed_ns:.2f} × {escape_control_chars(baseline.name)}"


def _of_other(mine: RunRecording, theirs: RunRecording) -> str:
    """How another attempt's time can be read: inputs are drawn anew for each grading."""
    baseline = theirs.baselines[0] if theirs.baselines else None
    words = _beside(theirs.elapsed_ns, baseline)
    if [call.words for call in mine.calls] == [call.words for call in theirs.calls]:
        return words or f"{theirs.elapsed_ns / mine.elapsed_ns:.2f} × this attempt"
    return ", ".join(filter(None, [words, "with other inputs"]))


def _its_baseline(run: RunRecording, verdict: Verdict) -> BaselineRecording | None:
    """The baseline whose time the verdict's figures name."""
    found = _MODELLED.match(verdict.measured)
    named = [one for one in run.baselines if found and duration(one.elapsed_ns) == found[1]]
    return next(iter(named or run.baselines), None)


def _measured_bars(verdict: Verdict) -> Bars | None:
    """What was timed in pairs on a real device, with its spread."""
    found = _MEASURED.match(verdict.measured)
    if found is None:
        return None
    ratio, low, high, pairs = found[1], found[2], found[3], found[4]
    mine = [nanoseconds(one) if one else 0 for one in found.group(5, 6, 7)]
    theirs = [nanoseconds(one) if one else 0 for one in found.group(8, 9, 10)]
    limit = limit_of(verdict.sentence) or 1.0
    return Bars(
        f"One call, timed in {pairs} pairs, measured; the middle half is shown pale",
        (
            TimeBar("this attempt", mine[0], f"{ratio} × ({low} to {high})", "mine", mine[1], mine[2]),
            TimeBar("the baseline", theirs[0], "", "baseline", theirs[1], theirs[2]),
            TimeBar("allowed", round(limit * theirs[0]), f"{limit:.3g} × the baseline", "limit"),
        ),
    )


def _by_case(view: RunView, run: RunRecording) -> Iterator[TimeBar]:
    """Each call, beside the same one of the first baseline."""
    baselines = {call.words: call.elapsed_ns for call in run.baselines[0].calls} if run.baselines else {}
    for number, case in enumerate(cases_of(run)):
        theirs = baselines.get(case.calls[0].words, 0)
        note = f"{case.work_ns / theirs:.2f} ×" if theirs else ""
        note = note if case.work_ns else "nothing ran"
        words = escape_control_chars(re.sub(r" of \d+", "", case.words))
        yield TimeBar(words, case.work_ns, note, "mine" if number == view.case_number else "other")


_PALE = "$foreground-muted"
_COLOURS = {"mine": "$primary", "baseline": "$secondary", "other": "$foreground 50%", "floor": "$success"}
_TIME = 8
_MOST_LABEL, _MOST_NOTE = 48, 30
_SHARES = (
    ("█", "computing", "$primary"),
    ("▓", "copying", "$accent"),
    ("▒", "waiting", "$warning"),
    ("░", "idle", _PALE),
)
_LEGEND = (
    "copying: and nothing is computed; waiting: nothing runs, and the host waits; "
    "idle: nothing runs, and the host launches or computes itself"
)


NO_TIMES = "This run has no times: what ran, and in which order, is in the other tabs."
NOTHING_RAN = "No device did anything in this call, so there are no times to set beside each other."


def times_tab() -> ScrollableText[RunView]:
    """Make the tab: the times of a run in bars, and the shares of a call once its trace is read."""
    return ScrollableText(times_lines, id="times-tab")


def times_lines(view: RunView, width: int) -> Iterator[Content]:
    """Draw the tab, `width` columns wide."""
    bars = all_bars(view)
    if not bars:
        nothing = view.loaded is not None and not view.loaded.used_a_device
        yield Content(NOTHING_RAN if nothing or (view.run.times and not view.run.elapsed_ns) else NO_TIMES)
        yield Content("")
    for group in bars:
        yield from _group(group, width)
        yield Content("")
    yield from _shares(view, width)


def _group(group: Bars, width: int) -> Iterator[Content]:
    """The bars of one scale."""
    yield Content(group.heading).stylize("bold")
    label = min(_MOST_LABEL, width // 2, max(len(one.words) for one in group.bars))
    note = min(_MOST_NOTE, max(len(one.note) for one in group.bars))
    room = max(4, width - label - _TIME - note - 6)
    top = max(max(one.time_ns, one.high_ns) for one in group.bars)
    for one in group.bars:
        words = Content(one.words).truncate(label, ellipsis=True, pad=True)
        if one.role == "mine":
            words = words.stylize("bold")
        yield Content.assemble(
            "  ", words, f" {duration(one.time_ns):>{_TIME}} ", _bar(one, top, room), " ", (one.note, _PALE)
        )


def _bar(one: TimeBar, top: int, room: int) -> Content:
    """Filled until the time; pale where it spreads; a limit is a line with an end."""
    if one.role == "limit":
        columns = max(1, round(room * one.time_ns / top))
        return Content(("─" * (columns - 1) + "┤").ljust(room)).stylize("$text-warning")
    if not one.high_ns:
        return Content(bar(one.time_ns, top, room).ljust(room)).stylize(_COLOURS[one.role])
    low, high = (round(room * value / top) for value in (one.low_ns, one.high_ns))
    high = max(high, low + 1)
    return Content(f"{'█' * low}{'▒' * (high - low)}".ljust(room)).stylize(_COLOURS[one.role])


def _shares(view: RunView, width: int) -> Iterator[Content]:
    """A stacked bar for each device, with its words."""
    if view.loaded is None:
        yield Content("Reading what was recorded …").stylize(_PALE)
        return
    several = len(view.case.calls) > 1 or len(view.run.calls) > 1
    timed = [one for one in view.loaded.figures if one.timed]
    found = [
        (escape_control_chars(f"{one.name} {each.device}").strip(), each)
        for one in timed
        for each in one.shares
        if each.whole
    ]
    if not found:
        return
    what = f" in {escape_control_chars(view.case.words)}" if several else ""
    yield Content(f"What the device's time was spent on{what}").stylize("bold").truncate(width, ellipsis=True)
    for name, shares in found:
        label = f"  {name:<8} " if len(found) > 1 else "  "
        yield from stacked(label, shares, max(10, width - len(label) - 2))
    for line in wrap(_LEGEND, width - 2):
        yield Content(f"  {line}").stylize(_PALE)


def stacked(label: str, shares: TimeShares, room: int) -> Iterator[Content]:
    """A bar of so many columns, and its parts in words below it."""
    times = (shares.computing, shares.copying, shares.waiting, shares.idle)
    columns = parts(times, room)
    cells = [(glyph * taken, colour) for (glyph, _, colour), taken in zip(_SHARES, columns, strict=True)]
    yield Content.assemble(label, *cells)
    words: list[str | tuple[str, str]] = [" " * len(label)]
    for (glyph, told, colour), time in zip(_SHARES, times, strict=True):
        if time:
            part = time / max(shares.whole, 1)
            words += [(f"{glyph} ", colour), f"{told} {share(part) if part >= 0.0005 else 'almost 0 %'}", "  "]
    yield Content.assemble(*words)

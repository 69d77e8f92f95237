"""The tab of times: best, previous and baseline."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING

from textual.content import Content

from gpututor.app.trace_view.model import RunView
from gpututor.app.widgets.output import ScrollableText
from gpututor.grading.recording import BaselineRecording, RunRecording
from gpututor.text import escape_control_chars
from gpututor.trace.formatting import bar, duration, parts, share

if TYPE_CHECKING:
    from gpututor.grading.report import Verdict
    from gpututor.trace.arrays import TimeShares


_LEAST_WIDTH = 40
_DURATION = r"[\d.,]+ (?:ns|µs|ms|s)"
_SPREAD = rf"({_DURATION})(?: \(({_DURATION}) to ({_DURATION})\))?"
_MEASURED = re.compile(
    rf"([\d.]+) × the baseline's time \(([\d.]+) to ([\d.]+) in the middle half of (\d+) pairs\): "
    rf"{_SPREAD} a call against {_SPREAD}, measured"
)
_MODELLED = re.compile(rf"[\d.]+ × the baseline's time: {_DURATION} against ({_DURATION})")
_AT_MOST = re.compile(r"It takes at most ([\d.]+) × the time of ")
_AS_FAST = re.compile(r"It is at least ([\d.]+) × as fast as ")
_NO_LONGER = re.compile(r"It takes no longer than ")
_UNITS = {"ns": 1, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


@dataclass(frozen=True)
class TimeBar:
    """A time, in nanoseconds."""

    words: str
    time_ns: int
    note: str = ""
    role: str = "other"
    """`mine`, `baseline`, `other`, `floor` or `limit`."""
    low_ns: int = 0
    high_ns: int = 0
    """Bounds of the middle half of the measurements; 0 if they are not known."""


@dataclass(frozen=True)
class Bars:
    """Times on one scale, under a heading."""

    heading: str
    bars: tuple[TimeBar, ...]


def all_bars(view: RunView) -> tuple[Bars, ...]:
    """Return all known times of the view's run, by scale."""
    run, several = view.run, len(view.cases) > 1
    speeds = [verdict for verdict in view.verdicts if verdict.scenario == run.scenario and limit_of(verdict.sentence)]
    groups = []
    if run.times and run.elapsed_ns:
        together = f"The {len(view.cases)} calls together" if several else "The call"
        groups.append(Bars(f"{together}, {run.times}", tuple(_whole(view, run, speeds))))
    groups += [bars for verdict in speeds if (bars := _measured_bars(verdict)) is not None]
    if run.times and run.elapsed_ns and several:
        groups.append(Bars(f"Call by call, {run.times}", tuple(_by_case(view, run))))
    return tuple(groups)


def limit_of(sentence: str) -> float | None:
    """Return the limit of a speed check as a multiple of its baseline's time; None for any other sentence."""
    if match := _AT_MOST.match(sentence):
        return float(match[1])
    if match := _AS_FAST.match(sentence):
        return 1 / float(match[1])
    return 1.0 if _NO_LONGER.match(sentence) else None


def nanoseconds(words: str) -> int:
    """Parse `1.25 ms`."""
    number, _, unit = words.partition(" ")
    return round(float(number.replace(",", "")) * _UNITS[unit])


def _whole(view: RunView, run: RunRecording, speeds: Iterable[Verdict]) -> Iterator[TimeBar]:
    first = run.baselines[0] if run.baselines else None
    yield TimeBar(f"this attempt ({view.attempt})", run.elapsed_ns, _ratio(run.elapsed_ns, first), "mine")
    for baseline in run.baselines:
        yield TimeBar(escape_control_chars(baseline.name), baseline.elapsed_ns, "what it is compared with", "baseline")
    for other in view.others:
        theirs = next(
            (candidate for candidate in other.view.recording.runs if candidate.scenario == run.scenario), None
        )
        if theirs is not None and theirs.elapsed_ns and theirs.times == run.times:
            yield TimeBar(other.words, theirs.elapsed_ns, _of_other(run, theirs))
    for verdict in speeds:
        against = _baseline_of(run, verdict)
        if against is not None and run.times == "modelled":
            limit = limit_of(verdict.sentence) or 1.0
            note = f"{limit:.3g} × {escape_control_chars(against.name)}"
            yield TimeBar("allowed", round(limit * against.elapsed_ns), note, "limit")
    if run.floor_ns:
        yield TimeBar("the floor", run.floor_ns, "no program can be faster here", "floor")


def _ratio(time_ns: int, baseline: BaselineRecording | None) -> str:
    """`0.09 × baseline.py`"""
    if baseline is None or not baseline.elapsed_ns:
        return ""
    return f"{time_ns / baseline.elapsed_ns:.2f} × {escape_control_chars(baseline.name)}"


def _of_other(mine: RunRecording, theirs: RunRecording) -> str:
    """Compare another attempt's time; its inputs may differ, as each grading draws its own."""
    baseline = theirs.baselines[0] if theirs.baselines else None
    words = _ratio(theirs.elapsed_ns, baseline)
    if [call.words for call in mine.calls] == [call.words for call in theirs.calls]:
        return words or f"{theirs.elapsed_ns / mine.elapsed_ns:.2f} × this attempt"
    return ", ".join(filter(None, [words, "with other inputs"]))


def _baseline_of(run: RunRecording, verdict: Verdict) -> BaselineRecording | None:
    """Return the baseline whose time the verdict's figures contain; else the first one."""
    match = _MODELLED.match(verdict.measured)
    named = [baseline for baseline in run.baselines if match and duration(baseline.elapsed_ns) == match[1]]
    return next(iter(named or run.baselines), None)


def _measured_bars(verdict: Verdict) -> Bars | None:
    """Return the times of pairs measured on a real device, with their spread; None if there were none."""
    match = _MEASURED.match(verdict.measured)
    if match is None:
        return None
    ratio, low, high, pairs, *times = match.groups()
    mine, my_low, my_high, baseline, its_low, its_high = (nanoseconds(time) if time else 0 for time in times)
    limit = limit_of(verdict.sentence) or 1.0
    return Bars(
        f"One call, timed in {pairs} pairs, measured; the middle half is shown pale",
        (
            TimeBar("this attempt", mine, f"{ratio} × ({low} to {high})", "mine", my_low, my_high),
            TimeBar("the baseline", baseline, "", "baseline", its_low, its_high),
            TimeBar("allowed", round(limit * baseline), f"{limit:.3g} × the baseline", "limit"),
        ),
    )


def _by_case(view: RunView, run: RunRecording) -> Iterator[TimeBar]:
    """Yield the time of each call, compared with the same call of the first baseline."""
    baselines = {call.words: call.elapsed_ns for call in run.baselines[0].calls} if run.baselines else {}
    for number, case in enumerate(view.cases):
        theirs = baselines.get(case.calls[0].words, 0)
        note = f"{case.work_ns / theirs:.2f} ×" if theirs else ""
        words = escape_control_chars(re.sub(r" of \d+", "", case.words))
        note = note if case.work_ns else "nothing ran"
        yield TimeBar(words, case.work_ns, note, "mine" if number == view.case_number else "other")


_PALE = "$foreground-muted"
_COLORS = {"mine": "$primary", "baseline": "$secondary", "other": "$foreground 50%", "floor": "$success"}
_TIME = 8
_MOST_LABEL, _MOST_NOTE = 48, 30
_SHARES = (
    ("█", "computing", "$primary"),
    ("▓", "copying", "$accent"),
    ("▒", "waiting", "$warning"),
    ("░", "idle", _PALE),
)
_MEANINGS = {
    "copying": "and nothing is computed",
    "waiting": "nothing runs, and the host waits",
    "idle": "nothing runs, and the host launches or computes itself",
}

NO_TIMES = "This run has no times: what ran, and in which order, is in the other tabs."
NOTHING_RAN = "No device did anything in this call, so there are no times to compare."


def times_tab() -> ScrollableText[RunView]:
    """Create the tab: the times of a run in bars, and the shares of a call once its trace is read."""
    return ScrollableText(times_lines, id="times-tab")


def times_lines(view: RunView, width: int) -> Iterator[Content]:
    """Draw the tab, `width` columns wide."""
    width, bars = max(_LEAST_WIDTH, width), all_bars(view)
    if not bars:
        nothing = view.loaded is not None and not view.loaded.used_a_device
        yield Content(NOTHING_RAN if nothing or (view.run.times and not view.run.elapsed_ns) else NO_TIMES)
        yield Content("")
    for group in bars:
        yield from _group(group, width)
        yield Content("")
    yield from _shares(view, width)


def _group(group: Bars, width: int) -> Iterator[Content]:
    yield Content(group.heading).stylize("bold")
    label = min(_MOST_LABEL, width // 2, max(len(time.words) for time in group.bars))
    note = min(_MOST_NOTE, max(len(time.note) for time in group.bars))
    columns = max(4, width - label - _TIME - note - 6)
    top = max(max(time.time_ns, time.high_ns) for time in group.bars)
    for time in group.bars:
        words = Content(time.words).truncate(label, ellipsis=True, pad=True)
        if time.role == "mine":
            words = words.stylize("bold")
        yield Content.assemble(
            "  ", words, f" {duration(time.time_ns):>{_TIME}} ", _bar(time, top, columns), " ", (time.note, _PALE)
        )


def _bar(time: TimeBar, top: int, columns: int) -> Content:
    """Draw a bar, pale where the time spreads; a limit is a line with an end."""
    if time.role == "limit":
        return Content(f"{'─' * (max(1, round(columns * time.time_ns / top)) - 1)}┤".ljust(columns)).stylize(
            "$text-warning"
        )
    filled = bar(time.time_ns, top, columns)
    if time.high_ns:
        low, high = (round(columns * value / top) for value in (time.low_ns, time.high_ns))
        filled = f"{'█' * low}{'▒' * max(high - low, 1)}"
    return Content(filled.ljust(columns)).stylize(_COLORS[time.role])


def _shares(view: RunView, width: int) -> Iterator[Content]:
    """Draw a stacked bar for each device, with its shares in words."""
    if view.loaded is None:
        yield Content("Reading what was recorded …").stylize(_PALE)
        return
    devices = [(name, shares) for name, shares in device_shares(view) if shares.whole]
    if not devices:
        return
    several = len(view.case.calls) > 1 or len(view.run.calls) > 1
    call = f" in {escape_control_chars(view.case.words).partition(', with ')[0]}" if several else ""
    yield Content(f"Where the device's time went{call}").stylize("bold").truncate(width, ellipsis=True)
    for name, shares in devices:
        label = f"  {name:<8} " if len(devices) > 1 else "  "
        yield from stacked(label, shares, max(10, width - len(label) - 2))
    occurring = [name for name in _MEANINGS if any(getattr(shares, name) for _, shares in devices)]
    for line in wrap("; ".join(f"{name}: {_MEANINGS[name]}" for name in occurring), width - 2):
        yield Content(f"  {line}").stylize(_PALE)


def device_shares(view: RunView) -> list[tuple[str, TimeShares]]:
    """Return the time shares of each device in each process, with a name to show."""
    figures = view.loaded.figures if view.loaded is not None else ()
    return [
        (escape_control_chars(f"{process.name} {shares.device}").strip(), shares)
        for process in figures
        if process.timed
        for shares in process.shares
    ]


def stacked(label: str, shares: TimeShares, columns: int) -> Iterator[Content]:
    """Draw a bar of `columns` columns, and describe its parts below it."""
    times = (shares.computing, shares.copying, shares.waiting, shares.idle)
    cells = [(glyph * taken, color) for (glyph, _, color), taken in zip(_SHARES, parts(times, columns), strict=True)]
    yield Content.assemble(label, *cells)
    words: list[str | tuple[str, str]] = [" " * len(label)]
    for (glyph, name, color), time in zip(_SHARES, times, strict=True):
        if time:
            part = time / max(shares.whole, 1)
            words += [(f"{glyph} ", color), f"{name} {share(part) if part >= 0.0005 else 'almost 0 %'}", "  "]
    yield Content.assemble(*words)

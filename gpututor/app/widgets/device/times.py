"""The tab of times: this attempt beside baselines and other attempts, and what the device's time was spent on."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap
from typing import TYPE_CHECKING

from textual.content import Content

from gpututor.app.widgets.device.sheet import Sheet
from gpututor.app.widgets.device.time_bars import Bars, TimeBar, all_bars
from gpututor.app.widgets.device.view import RunView
from gpututor.plain_text import visible
from gpututor.trace.charts import bar, parts
from gpututor.trace.units import duration, share

if TYPE_CHECKING:
    from gpututor.trace.shares import TimeShares

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


class TimesTab(Sheet[RunView]):
    """The times of a run in bars, and the shares of a call once its trace is read."""

    def lines(self, shown: RunView, width: int) -> Iterator[Content]:
        return _lines(shown, width)


def _lines(view: RunView, width: int) -> Iterator[Content]:
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
    found = [(visible(f"{one.name} {each.device}").strip(), each) for one in timed for each in one.shares if each.whole]
    if not found:
        return
    what = f" in {visible(view.case.words)}" if several else ""
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

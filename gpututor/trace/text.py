"""Traces in words: summaries, comparisons of GPUs, and single events."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os.path import commonpath, dirname, relpath
from typing import NamedTuple

import numpy as np

from gpututor.text import escape_control_chars
from gpututor.trace.arrays import Place, TraceArrays
from gpututor.trace.events import Kind
from gpututor.trace.formatting import bandwidth, duration, operations, share, size, speed
from gpututor.trace.hazards import hazard_of, sentence_of
from gpututor.trace.summary import CopyGroup, DeviceSummary, LineSummary, Summary
from gpututor.trace.timeline import Lane, LaneKind, Span, TimelineLayout

WIDTH = 80
MOST_LINES = 8
"""Rows of a table: kernels, lines, hazards."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """The same program on one GPU, for a comparison."""

    name: str
    time: int | None
    """Nanoseconds from its beginning to its end; None where it did not come to an end."""
    busy_share: float
    """Of that time, 0 to 1."""
    peak_bytes: int
    memory_bytes: int
    fits: bool | None
    """Whether it ran without running out of memory; None where that is not known, as it was interrupted."""
    note: str = ""
    """What is to be said of it below the table, such as where memory ran out."""
    launch_bound: bool = False
    """Whether it mostly waited for launches of the host."""


def describe(summary: Summary, *, modelled: bool = False) -> str:
    """The whole summary, ending in a newline; `modelled` says that the times are not measured."""
    parts = [_head(summary, modelled), *(_device(one, summary) for one in summary.devices)]
    parts += [_lines(summary), _ranges(summary), _hazards(summary), _advice(summary)]
    return "\n".join("\n".join(lines) + "\n" for lines in map(list, parts) if lines)


def comparison(candidates: Sequence[Candidate], *, modelled: bool = False) -> str:
    """A table of the same program on several GPUs, ending in a newline. Times are set against the first that is known.

    `1.25 ×` in the third column is a quarter faster than the first.
    """
    first = next((one.time for one in candidates if one.time), None)
    rows = [("", "modelled time" if modelled else "time", "speed", "GPU busy", "peak memory", "of", "fits")]
    for one in candidates:
        time = "-" if one.time is None else duration(one.time)
        speed = f"{first / one.time:.2f} ×" if first and one.time else "-"
        busy = "-" if one.time is None else share(one.busy_share)
        memory = size(one.memory_bytes) if one.memory_bytes else "-"
        peak = size(one.peak_bytes) if one.memory_bytes else "-"
        fits = "-" if one.fits is None else "yes" if one.fits else "no"
        rows.append((_safe(one.name), time, speed, busy, peak, memory, fits))
    lines = list(table(rows, widest_first=16))
    for one in candidates:
        if one.note:
            lines += _wrapped(f"{_safe(one.name)}: {_safe(one.note)}", indent=4, first="  ")
    ended = [one for one in candidates if one.time is not None]
    if len(ended) > 1 and all(one.launch_bound for one in ended):
        lines += _wrapped("mostly launches: this compares the hosts more than the GPUs", indent=4, first="  ")
    return "\n".join(lines) + "\n"


def _head(summary: Summary, modelled: bool) -> Iterator[str]:
    if not any(one.kernel_count or one.copies or one.collective_count for one in summary.devices):
        yield "No work ran on a GPU."
    elif not summary.timed:
        yield f"{summary.events:,} events; when they ran is not known"
    else:
        word = "modelled time" if modelled else "time"
        yield f"{duration(summary.span)} of {word}: the host waited for {duration(summary.host_waiting)} of it, and"
        yield f"computed on the CPU for {duration(summary.host_computing)}"
    if summary.dropped:
        yield f"{summary.dropped:,} more events came after the limit, and are missing here"


def _device(device: DeviceSummary, summary: Summary) -> Iterator[str]:
    busy = f": busy for {duration(device.busy)}, {share(device.busy_share)} of the time" if summary.timed else ""
    yield f"{device.name}{busy}"
    rows: list[tuple[str, ...]] = []
    if device.kernel_count:
        rows.append(("kernels", f"{device.kernel_count:,}", _time(device.kernel_time, summary), ""))
    rows += [
        (_direction(one, device.name), f"{one.count:,}", _time(one.time, summary), _bytes_of(one))
        for one in device.copies
    ]
    if device.collective_count:
        sent = f"{size(device.collective_bytes)} sent"
        rows.append(("collectives", f"{device.collective_count:,}", _time(device.collective_time, summary), sent))
    if device.waits:
        rows.append(("waits of the host", f"{device.waits:,}", _time(device.wait_time, summary), ""))
    if device.streams > 1:
        rows.append(("streams", f"{device.streams:,}", "", ""))
    if rows:
        yield from table(rows, indent=2)
    if device.peak_bytes:
        where = f", reached at {_place(device.peak_place)}" if device.peak_place.line else ""
        yield from _wrapped(f"at most {size(device.peak_bytes)} of memory{where}", indent=2)
    for failed in device.out_of_memory[:MOST_LINES]:
        words = f"out of memory at {_place(failed.place)}: {size(failed.size_bytes)} asked for"
        yield from _wrapped(f"{words}, {size(failed.allocated)} allocated", indent=2)
    if device.kernels:
        yield ""
        yield "  kernels that take longest"
        longest = device.kernels[:MOST_LINES]
        yield from table(
            [
                (_safe(one.name), f"{one.count:,}", _time(one.time, summary), _rate(one.flops, one.time))
                for one in longest
            ],
            indent=4,
        )


def _lines(summary: Summary) -> Iterator[str]:
    if not summary.lines:
        return
    yield "Lines that cost most"
    shown = summary.lines[:MOST_LINES]
    places = _short([one.place for one in shown])
    on_cpu = any(one.host_count for one in shown)
    rows = [("", "kernels", "", "copies", "", "waits", "", "CPU" if on_cpu else "")]
    for one, place in zip(shown, places, strict=True):
        rows.append(
            (
                place,
                f"{one.kernel_count:,}" if one.kernel_count else "",
                _time(one.kernel_time, summary) if one.kernel_count else "",
                size(one.copy_bytes) if one.copy_count else "",
                _time(one.copy_time, summary) if one.copy_count else "",
                f"{one.waits:,}" if one.waits else "",
                _time(one.wait_time, summary) if one.waits else "",
                _on_cpu(one),
            )
        )
    yield from table(rows, indent=2, widest_first=24)
    if len(summary.lines) > MOST_LINES:
        yield f"  and {len(summary.lines) - MOST_LINES:,} more"


def _on_cpu(line: LineSummary) -> str:
    """How long its operators ran on the CPU, or how many they were."""
    if line.host_time:
        return duration(line.host_time)
    return f"{line.host_count:,} ops" if line.host_count else ""


def _ranges(summary: Summary) -> Iterator[str]:
    if summary.ranges:
        yield "Named ranges"
        shown = summary.ranges[:MOST_LINES]
        yield from table([(_safe(one.name), f"{one.count:,}", duration(one.time)) for one in shown], indent=2)


def _hazards(summary: Summary) -> Iterator[str]:
    if summary.hazards:
        yield "Hazards: two use the same memory, and nothing says which of them comes first"
        for one in summary.hazards[:MOST_LINES]:
            times = f" ({one.count:,} times)" if one.count > 1 else ""
            yield from _wrapped(f"{_safe(one.sentence)}{times}", first="  - ", indent=4)
        if len(summary.hazards) > MOST_LINES:
            yield f"  and {len(summary.hazards) - MOST_LINES:,} more"


def _advice(summary: Summary) -> Iterator[str]:
    if not summary.advice:
        return
    yield "Most worth changing"
    for number, one in enumerate(summary.advice, 1):
        yield from _wrapped(_safe(one.sentence), first=f"  {number}. ", indent=5)
        yield from _wrapped(_safe(one.what_to_do), indent=5)
        if one.costs:
            yield f"     {one.costs}"


def _direction(copy: CopyGroup, device: str) -> str:
    if copy.source == "cpu":
        return "copies to the device"
    if copy.target == "cpu":
        return "copies to the host"
    return f"copies to {copy.target}" if copy.source == device else f"copies from {copy.source}"


def _bytes_of(copy: CopyGroup) -> str:
    if "cpu" not in (copy.source, copy.target):
        return size(copy.size_bytes)
    return f"{size(copy.size_bytes)}, {'asynchronous' if copy.asynchronous else 'the host waits'}"


def _rate(flops: float, time: int) -> str:
    if not flops or not time:
        return ""
    rate = flops / time
    return f"{rate / 1000:.1f} TFLOP/s" if rate >= 100 else f"{rate:.1f} GFLOP/s"


def _time(nanoseconds: int, summary: Summary) -> str:
    return duration(nanoseconds) if summary.timed else ""


def _place(place: Place) -> str:
    return _safe(str(place))


def _short(places: Sequence[Place]) -> list[str]:
    """Files as short as they can be told apart: below the folder that they share."""
    files = {place.file for place in places}
    try:
        folder = commonpath([dirname(file) for file in files])
        return [_safe(f"{relpath(place.file, folder) if folder else place.file}:{place.line}") for place in places]
    except ValueError:  # a mix of absolute and relative names
        return [_place(place) for place in places]


def _safe(text: str) -> str:
    return escape_control_chars(text).replace("\n", "\\n").replace("\t", " ")


def _wrapped(text: str, *, indent: int, first: str = "") -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=first or " " * indent, subsequent_indent=" " * indent)


def table(rows: Sequence[tuple[str, ...]], *, indent: int = 0, widest_first: int = 34) -> Iterator[str]:
    """Lines with columns side by side, the first to the left and cut, the others to the right."""
    widths = [max(len(row[at]) for row in rows) for at in range(1, len(rows[0]))]
    room = WIDTH - indent - sum(width + 2 for width in widths if width)
    firsts = [_cut(row[0], min(widest_first, max(room, 8))) for row in rows]
    for first, row in zip(firsts, rows, strict=True):
        cells = [value.rjust(width) for value, width in zip(row[1:], widths, strict=True) if width]
        yield (" " * indent + "  ".join([first.ljust(max(map(len, firsts))), *cells])).rstrip()


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"…{text[1 - width :]}"


UNITS = (("s", 1_000_000_000), ("ms", 1_000_000), ("µs", 1_000))
_SHORT = {"aten::_local_scalar_dense": ".item()", "aten::_to_copy": "copy", "aten::copy_": "copy"}
_WAITS = {
    "aten::_local_scalar_dense": "to read a value of the device: `.item()`, `float()`, `if`",
    "aten::_to_copy": "for a copy to the host: `.cpu()`, `.to()`",
    "aten::copy_": "for a copy to the host: `copy_()`",
    "print": "to print a tensor of the device",
}


@dataclass(frozen=True)
class EventDescription:
    """What is to be said of one event. Plain text, no full stops at the ends."""

    title: str
    """`aten::mm on stream 3`."""
    facts: tuple[str, ...]
    """A line each: when, how much, why then."""
    hazards: tuple[str, ...]
    """What is wrong with it, and what to do, a sentence each."""
    place: Place
    """The line that caused it."""
    earlier: Place
    """For a hazard: the line of the other one; else nowhere."""


class Cause(NamedTuple):
    """What something waited for."""

    lane: Lane
    number: int


def short_name(name: str) -> str:
    """An operator's name without what all of them begin with."""
    if name in _SHORT:
        return _SHORT[name]
    for prefix in ("aten::", "c10d::", "torch.cuda.", "torch."):
        name = name.removeprefix(prefix)
    return name.rstrip("_") or name


def describe_event(picture: TimelineLayout, lane: Lane, number: int, times: str = "") -> EventDescription:
    """The event with that number on a lane. `times` says how times are known: `modelled`, `measured`."""
    return _Teller(picture, lane, number, times).words()


def cause_of(picture: TimelineLayout, lane: Lane, number: int) -> Cause | None:
    """What work on a device, or a wait of the host, waited for: what was done last before it could begin, or go on."""
    rows, row = picture.rows(lane), int(lane.row[number])
    if lane.span[number] == Span.WAIT:
        since, until = int(rows.start[row]), int(rows.end[row])
    elif lane.span[number] in (Span.KERNEL, Span.COPY, Span.COLLECTIVE):
        since, until = int(rows.launched[row]), int(rows.start[row])
    else:
        return None
    if since < 0 or until <= since:
        return None
    best: tuple[int, bool, Cause] | None = None
    for other in picture.lanes:
        if other.process != lane.process or not len(other) or other.span[0] not in _WORK:
            continue
        seen = other.between(since, until)
        ends = other.end[seen]
        fits = (ends > since) & (ends <= until)
        if other is lane:
            fits &= np.arange(seen.start, seen.start + ends.size) != number
        if fits.any():
            at = int(np.argmax(np.where(fits, ends, -1)))
            found = (int(ends[at]), other is lane, Cause(other, seen.start + at))
            if best is None or found[:2] > best[:2]:
                best = found
    return best[2] if best else None


_WORK = (Span.KERNEL, Span.COPY, Span.COLLECTIVE)


class _Teller:
    def __init__(self, picture: TimelineLayout, lane: Lane, number: int, times: str) -> None:
        self._picture, self._lane, self._number = picture, lane, number
        self._rows: TraceArrays = picture.rows(lane)
        self._row = int(lane.row[number])
        self._span = Span(int(lane.span[number]))
        self._times = times
        self._name = self._rows.names[self._rows.name[self._row]]

    def words(self) -> EventDescription:
        hazard = int(self._lane.hazard[self._number])
        facts = [fact for fact in (*self._facts(), self._waited()) if fact]
        hazards: tuple[str, ...] = ()
        earlier = Place("", None)
        if hazard >= 0:
            group = hazard_of(self._rows, hazard)
            hazards, earlier = (sentence_of(self._rows, hazard), group.what_to_do.rstrip(".")), group.earlier
        place = self._rows.place_of(int(self._rows.place[self._row]))
        return EventDescription(self._title(), tuple(facts), hazards, place, earlier)

    def _title(self) -> str:
        rows, row, name = self._rows, self._row, self._name
        match self._span:
            case Span.KERNEL | Span.COLLECTIVE:
                return f"{name} on {self._lane.title}"
            case Span.COPY | Span.HOST_COPY:
                held = ", and the host is held" if self._span is Span.HOST_COPY else ""
                return f"Copy of {size(int(rows.size[row]))} {self._direction()}{held}"
            case Span.WAIT:
                return f"The host waits {_WAITS.get(name, f'in {name}')}"
            case Span.COMPUTE:
                return f"{name} on the CPU"
            case Span.LAUNCH:
                what = f"a copy {self._direction()}" if self._is_copy else name
                return f"Launch of {what}"
            case Span.RANGE:
                return f"Range {name}"
            case Span.HAZARD:
                return f"Hazard: {name}"
            case _:
                return f"Out of memory: {size(int(rows.size[row]))} asked for on {rows.devices[rows.device[row]]}"

    def _facts(self) -> list[str]:
        rows, row = self._rows, self._row
        match self._span:
            case Span.KERNEL:
                return [self._when(), self._work()]
            case Span.COLLECTIVE:
                return [self._when(), f"{size(int(rows.size[row]))} sent{self._rate()}"]
            case Span.COPY | Span.HOST_COPY:
                return [self._when(), self._copied(), self._again()]
            case Span.LAUNCH:
                return [self._launched()]
            case Span.HAZARD:
                return [f"Met at {self._at(int(rows.launched[row]))}"]
            case Span.OUT_OF_MEMORY:
                allocated = size(int(rows.allocated[row]))
                return [f"At {self._at(int(rows.launched[row]))}, when {allocated} were allocated"]
            case Span.COMPUTE:
                return [self._when(), self._work()]
            case _:
                return [self._when()]

    @property
    def _is_copy(self) -> bool:
        return bool(self._rows.kind[self._row] == Kind.TRANSFER.number)

    def _direction(self) -> str:
        rows, row = self._rows, self._row
        ends = [rows.devices[rows.source[row]], rows.devices[rows.target[row]]]
        source, target = ("the host" if one == "cpu" else one for one in ends)
        return f"from {source} to {target}"

    def _at(self, moment: int) -> str:
        return duration(moment - self._picture.begin)

    def _when(self) -> str:
        start, end = int(self._lane.start[self._number]), int(self._lane.end[self._number])
        whole = (end - start) / (self._picture.finish - self._picture.begin)
        part = f", {share(whole)} of the whole" if whole >= 0.001 else ""
        known = f" ({self._times})" if self._times else ""
        begin = self._picture.begin
        return f"{span_words(start - begin, end - begin)}: {duration(end - start)}{known}{part}"

    def _work(self) -> str:
        rows, row = self._rows, self._row
        taken = int(rows.duration[row])
        words = []
        if rows.size[row]:
            moved = int(rows.size[row])
            words.append(f"{size(moved)} in and out{_bracket(bandwidth(moved, taken))}")
        if rows.flops[row]:
            done = float(rows.flops[row])
            words.append(f"{operations(done)}{_bracket(speed(done, taken))}")
        if dtype := rows.dtype_of(row):
            words.append(dtype)
        return ", ".join(words)

    def _rate(self) -> str:
        return _bracket(bandwidth(int(self._rows.size[self._row]), int(self._rows.duration[self._row])))

    def _copied(self) -> str:
        rows, row = self._rows, self._row
        rate = bandwidth(int(rows.size[row]), int(rows.duration[row]))
        device = rows.devices[rows.device[row]]
        stream = int(rows.stream[row])
        where = "the default stream" if stream == 0 else f"stream {stream}"
        if rows.asynchronous[row]:
            how = "asynchronous: the host goes on meanwhile"
        elif self._lane.kind is LaneKind.TO_HOST:
            how = "the host waits for it"
        else:
            how = "the host is held: not pinned, or without non_blocking"
        return ", ".join(filter(None, [rate, f"on {where} of {device}", how]))

    def _again(self) -> str:
        partner = int(self._rows.partner[self._row])
        if partner < 0:
            return ""
        place = self._rows.place_of(int(self._rows.place[partner]))
        return f"The same bytes were copied before, at {place}"

    def _launched(self) -> str:
        rows, row = self._rows, self._row
        launched = int(rows.launched[row])
        if not rows.timed[row]:
            return f"Done at {self._at(launched)}; when it ran is not known"
        later = int(rows.start[row]) - launched
        when = f"{duration(later)} later" if later > 0 else "at once"
        return f"Done at {self._at(launched)}; it begins {when}, and takes {duration(int(rows.duration[row]))}"

    def _waited(self) -> str:
        rows, row = self._rows, self._row
        if self._span is Span.WAIT:
            cause = cause_of(self._picture, self._lane, self._number)
            if cause is None:
                return "There was nothing left to wait for"
            before = cause_of(self._picture, *cause) if cause.lane.kind is LaneKind.TO_HOST else None
            of_it = f", which waited for {self._told(before)}" if before else ""
            return f"Waited for {self._told(cause)}{of_it}"
        if self._span not in _WORK:
            return ""
        launched, start = int(rows.launched[row]), int(rows.start[row])
        if launched < 0:
            return ""
        if start <= launched:
            return f"Launched at {self._at(launched)}, began at once"
        words = f"Launched at {self._at(launched)}, waited {duration(start - launched)}"
        cause = cause_of(self._picture, self._lane, self._number)
        if cause is None:
            ranks = " for the other ranks" if self._span is Span.COLLECTIVE else ""
            return words + ranks
        return f"{words} for {self._told(cause)}"

    def _told(self, cause: Cause) -> str:
        """`aten::mm on stream 3 (line 12)`."""
        lane, number = cause
        rows, row = self._picture.rows(lane), int(lane.row[number])
        teller = _Teller(self._picture, lane, number, "")
        what = f"the copy {teller._direction()}" if teller._is_copy else teller._name
        where = "" if teller._is_copy else " before it" if lane is self._lane else f" on {lane.title}"
        place = rows.place_of(int(rows.place[row]))
        return f"{what}{where}" + (f" ({place})" if place.line is not None else "")


def span_words(start: int, end: int) -> str:
    """`62.101 to 62.116 ms`: as many digits as it takes to tell the two apart."""
    unit, worth = next(((unit, worth) for unit, worth in UNITS if end >= worth), ("ns", 1))
    digits, least = 0, worth
    while least > 1 and least * 20 > end - start:
        digits, least = digits + 1, least // 10
    digits = max(digits, 0 if worth == 1 else 1)
    return f"{start / worth:,.{digits}f} to {end / worth:,.{digits}f} {unit}"


def _bracket(words: str) -> str:
    return f" ({words})" if words else ""

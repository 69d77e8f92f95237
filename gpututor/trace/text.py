"""Texts about traces: summaries, comparisons of GPUs, and single events."""

from __future__ import annotations

import linecache
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os.path import commonpath, dirname, relpath
from typing import NamedTuple

import numpy as np

from gpututor.text import escape_control_chars, truncate
from gpututor.trace.arrays import NOWHERE, Place
from gpututor.trace.events import DTYPES, Kind
from gpututor.trace.formatting import UNITS, bandwidth, duration, operations, share, size, speed
from gpututor.trace.hazards import hazard_of
from gpututor.trace.summary import CopyGroup, DeviceSummary, KernelGroup, Summary
from gpututor.trace.timeline import Lane, LaneKind, SpanKind, TimelineLayout

WIDTH = 80
LAUNCH_BOUND = 0.3
"""Share of a program's time above which it counts as launch-bound."""
MOST_LINES = 8
"""Rows of a table: kernels, lines, hazards."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """The same program on one GPU, for a comparison."""

    name: str
    time: int | None
    """Nanoseconds from start to end; None if the program did not end."""
    busy_share: float
    """Share of that time, 0 to 1."""
    peak_bytes: int
    memory_bytes: int
    fits: bool | None
    """True if the run did not run out of memory; None if it was interrupted."""
    note: str = ""
    """A remark for below the table, such as the line that ran out of memory."""
    launch_bound: bool = False
    """True if the device mostly waited for the host's launches."""
    verdict: str = ""
    """Verdict of a graded program; empty for others, whose rows show the GPU's memory instead."""


def describe(summary: Summary, *, modelled: bool = False) -> str:
    """Return the whole summary as text, ending in a newline; `modelled` if its times are not measured."""
    parts = [_head(summary, modelled), *(_device(device, summary) for device in summary.devices)]
    parts += [_lines(summary), _ranges(summary), _hazards(summary), _advice(summary)]
    return "\n".join("\n".join(lines) + "\n" for lines in map(list, parts) if lines)


def comparison(candidates: Sequence[Candidate], *, modelled: bool = False) -> str:
    """Return a table of a program on several GPUs, with speeds relative to the first GPU that has a time."""
    first = next((gpu.time for gpu in candidates if gpu.time), None)
    rows = [("", "modelled time" if modelled else "time", "speed", "GPU busy", "peak memory", "of", "fits", "")]
    if any(gpu.verdict for gpu in candidates):
        rows = [(*rows[0][:5], "", "fits", "verdict")]
    for gpu in candidates:
        time = "-" if gpu.time is None else duration(gpu.time)
        speed = f"{first / gpu.time:.2f} ×" if first and gpu.time else "-"
        busy = "-" if gpu.time is None else share(gpu.busy_share)
        memory = size(gpu.memory_bytes) if gpu.memory_bytes else "-"
        peak = size(gpu.peak_bytes) if gpu.memory_bytes else "-"
        fits = "-" if gpu.fits is None else "yes" if gpu.fits else "no"
        rows.append((_safe(gpu.name), time, speed, busy, peak, "" if gpu.verdict else memory, fits, gpu.verdict))
    lines = list(table(rows, widest_first=16))
    notes = [(gpu.name, gpu.note) for gpu in candidates if gpu.note]
    if len(notes) == len(candidates) > 1 and len({note for _, note in notes}) == 1:
        notes = [("all", notes[0][1])]
    for name, note in notes:
        lines += _wrapped(f"{_safe(name)}: {_safe(note)}", indent=4, first="  ")
    ended = [gpu for gpu in candidates if gpu.time is not None]
    if len(ended) > 1 and all(gpu.launch_bound for gpu in ended):
        lines += _wrapped("mostly launches: this compares the hosts more than the GPUs", indent=4, first="  ")
    return "\n".join(lines) + "\n"


def _head(summary: Summary, modelled: bool) -> Iterator[str]:
    devices = summary.devices
    if not any(device.kernel_count or device.copies or device.collective_count for device in devices):
        yield "No work ran on a GPU."
    elif not summary.timed:
        yield f"{summary.events:,} events; their times are not known"
    else:
        word = "modelled time" if modelled else "time"
        yield f"{duration(summary.span)} of {word}: the host waited for {duration(summary.host_waiting)} of it, and"
        yield f"computed on the CPU for {duration(summary.host_computing)}"
    if summary.dropped:
        yield f"{summary.dropped:,} more events exceed the limit and are not shown"


def _device(device: DeviceSummary, summary: Summary) -> Iterator[str]:
    def time(nanoseconds: int) -> str:
        return duration(nanoseconds) if summary.timed else ""

    yield device.name + (f": busy for {time(device.busy)}, {share(device.busy_share)} of the time" * summary.timed)
    rows: list[tuple[str, ...]] = []
    if device.kernel_count:
        rows.append(("kernels", f"{device.kernel_count:,}", time(device.kernel_time), ""))
    for copy in device.copies:
        how = f", {'asynchronous' if copy.asynchronous else 'the host waits'}" * ("cpu" in (copy.source, copy.target))
        rows.append((_direction(copy, device.name), f"{copy.count:,}", time(copy.time), size(copy.size_bytes) + how))
    if device.collective_count:
        sent = f"{size(device.collective_bytes)} sent"
        rows.append(("collectives", f"{device.collective_count:,}", time(device.collective_time), sent))
    if device.waits:
        rows.append(("waits of the host", f"{device.waits:,}", time(device.wait_time), ""))
    if device.streams > 1:
        rows.append(("streams", f"{device.streams:,}", "", ""))
    yield from table(rows, indent=2)
    if device.peak_bytes:
        where = f", reached at {_safe(str(device.peak_place))}" if device.peak_place.line else ""
        yield from _wrapped(f"at most {size(device.peak_bytes)} of memory{where}", indent=2)
    for failed in device.out_of_memory[:MOST_LINES]:
        text = f"out of memory at {_safe(str(failed.place))}: {size(failed.size_bytes)} asked for"
        yield from _wrapped(f"{text}, {size(failed.allocated)} allocated", indent=2)
    if device.kernels:
        yield ""
        yield "  kernels that take longest"
        rows = [
            (_safe(kernels.name), f"{kernels.count:,}", time(kernels.time), _rate(kernels.flops, kernels.time))
            for kernels in device.kernels[:MOST_LINES]
        ]
        yield from table(rows, indent=4)
    for kernels in device.kernels[:MOST_LINES]:
        if kernels.programs:
            yield from _wrapped(_programs(kernels), first="    ", indent=6)


def _programs(kernels: KernelGroup) -> str:
    """Describe the bytes that the programs of a kernel requested and moved."""
    asked, moved = kernels.requested_bytes, kernels.moved_bytes
    words = f"{_safe(kernels.name)}: {kernels.programs:,} programs"[: -1 if kernels.programs == 1 else None]
    words += f", {size(asked)} asked for, {size(moved)} moved"
    if moved:
        words += f" ({share(asked / moved)} of it asked for)"
    return words + (f", {share(kernels.peak_share)} of the peak" if kernels.peak_share else "")


def _lines(summary: Summary) -> Iterator[str]:
    if not summary.lines:
        return
    yield "Lines that cost most"
    shown = summary.lines[:MOST_LINES]
    cpu = "CPU" if any(line.host_count for line in shown) else ""
    rows: list[tuple[str, ...]] = [("", "kernels", "", "copies", "", "waits", "", cpu)]
    for line, place in zip(shown, _short_places([line.place for line in shown]), strict=True):
        kernels = (line.kernel_count, f"{line.kernel_count:,}", line.kernel_time)
        copies = (line.copy_count, size(line.copy_bytes), line.copy_time)
        cells = [place]
        for count, amount, time in (kernels, copies, (line.waits, f"{line.waits:,}", line.wait_time)):
            cells += [amount, duration(time) if summary.timed else ""] if count else ["", ""]
        ops = f"{line.host_count:,} ops" if line.host_count else ""
        rows.append((*cells, duration(line.host_time) if line.host_time else ops))
    header, *rows_of_lines = table(rows, indent=2, widest_first=24)
    yield header
    for line, row in zip(shown, rows_of_lines, strict=True):
        yield row
        if source := _source(line.place):
            yield f"    {truncate(source, WIDTH - 4)}"
    if len(summary.lines) > MOST_LINES:
        yield f"  and {len(summary.lines) - MOST_LINES:,} more"


def _source(place: Place) -> str:
    """Return the text of the line; empty if its file cannot be read."""
    return _safe(linecache.getline(place.file, place.line or 0).strip())


def _ranges(summary: Summary) -> Iterator[str]:
    if summary.ranges:
        yield "Named ranges"
        shown = summary.ranges[:MOST_LINES]
        yield from table([(_safe(named.name), f"{named.count:,}", duration(named.time)) for named in shown], indent=2)


def _hazards(summary: Summary) -> Iterator[str]:
    if summary.hazards:
        between = any(not hazard.is_in_kernel for hazard in summary.hazards)
        yield "Hazards" + ": two use the same memory, and nothing says which of them comes first" * between
        for hazard in summary.hazards[:MOST_LINES]:
            times = f" ({hazard.count:,} times)" if hazard.count > 1 else ""
            yield from _wrapped(f"{_safe(hazard.sentence)}{times}", first="  - ", indent=4)
        if len(summary.hazards) > MOST_LINES:
            yield f"  and {len(summary.hazards) - MOST_LINES:,} more"


def _advice(summary: Summary) -> Iterator[str]:
    if not summary.advice:
        return
    yield "Most worth changing"
    for number, advice in enumerate(summary.advice, 1):
        yield from _wrapped(_safe(advice.sentence), first=f"  {number}. ", indent=5)
        yield from _wrapped(_safe(advice.what_to_do), indent=5)
        if advice.costs:
            yield f"     {advice.costs}"


def _direction(copy: CopyGroup, device: str) -> str:
    if "cpu" in (copy.source, copy.target):
        return f"copies to the {'device' if copy.source == 'cpu' else 'host'}"
    return f"copies to {copy.target}" if copy.source == device else f"copies from {copy.source}"


def _rate(flops: float, time: int) -> str:
    if not flops or not time:
        return ""
    rate = flops / time
    return f"{rate / 1000:.1f} TFLOP/s" if rate >= 100 else f"{rate:.1f} GFLOP/s"


def _short_places(places: Sequence[Place]) -> list[str]:
    """Return places with file names relative to the folder that they share."""
    files = {place.file for place in places}
    try:
        folder = commonpath([dirname(file) for file in files])
        return [_safe(f"{relpath(place.file, folder) if folder else place.file}:{place.line}") for place in places]
    except ValueError:  # a mix of absolute and relative names
        return [_safe(str(place)) for place in places]


def _safe(text: str) -> str:
    return escape_control_chars(text).replace("\n", "\\n").replace("\t", " ")


def _wrapped(text: str, *, indent: int, first: str = "") -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=first or " " * indent, subsequent_indent=" " * indent)


def table(rows: Sequence[tuple[str, ...]], *, indent: int = 0, widest_first: int = 34) -> Iterator[str]:
    """Yield lines with columns: the first left-aligned and cut, the others right-aligned."""
    if not rows:
        return
    widths = [max(map(len, column)) for column in list(zip(*rows, strict=True))[1:]]
    space = WIDTH - indent - sum(width + 2 for width in widths if width)
    firsts = [_cut(row[0], min(widest_first, max(space, 8))) for row in rows]
    for first, row in zip(firsts, rows, strict=True):
        cells = [value.rjust(width) for value, width in zip(row[1:], widths, strict=True) if width]
        yield (" " * indent + "  ".join([first.ljust(max(map(len, firsts))), *cells])).rstrip()


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"…{text[1 - width :]}"


_SHORT = {"aten::_local_scalar_dense": ".item()", "aten::_to_copy": "copy", "aten::copy_": "copy"}
_WAITS = {
    "aten::_local_scalar_dense": "to read a value of the device: `.item()`, `float()`, `if`",
    "aten::_to_copy": "for a copy to the host: `.cpu()`, `.to()`",
    "aten::copy_": "for a copy to the host: `copy_()`",
    "print": "to print a tensor of the device",
}


@dataclass(frozen=True)
class EventDescription:
    """Texts about one event: plain text, no full stops at the ends."""

    title: str
    """Text like `aten::mm on stream 3`."""
    facts: tuple[str, ...]
    """Lines about its time, its amount and its cause."""
    hazards: tuple[str, ...]
    """The hazard and its remedy, a sentence each; empty without a hazard."""
    place: Place
    """The line that caused it."""
    earlier: Place
    """The line of a hazard's earlier work; `NOWHERE` for other events."""


class Cause(NamedTuple):
    """The event that another event waited for."""

    lane: Lane
    number: int


def short_name(name: str) -> str:
    """Return an operator's name without its namespace."""
    if name in _SHORT:
        return _SHORT[name]
    for prefix in ("aten::", "c10d::", "torch.cuda.", "torch."):
        name = name.removeprefix(prefix)
    return name.rstrip("_") or name


def describe_event(layout: TimelineLayout, lane: Lane, number: int, times: str = "") -> EventDescription:
    """Describe the event with that number on a lane. `times` is the origin of times: `modelled`, `measured`."""
    return _Describer(layout, lane, number, times).describe()


def cause_of(layout: TimelineLayout, lane: Lane, number: int) -> Cause | None:
    """Return the event that a piece of device work, or a wait of the host, waited for.

    This is the last event to end before it.
    """
    rows, row = layout.rows(lane), int(lane.row[number])
    if lane.span[number] == SpanKind.WAIT:
        since, until = int(rows.start[row]), int(rows.end[row])
    elif lane.span[number] in (SpanKind.KERNEL, SpanKind.COPY, SpanKind.COLLECTIVE):
        since, until = int(rows.launched[row]), int(rows.start[row])
    else:
        return None
    if since < 0 or until <= since:
        return None
    best: tuple[int, bool, Cause] | None = None
    for other in layout.lanes:
        if other.process != lane.process or not len(other) or other.span[0] not in _WORK:
            continue
        spans = other.between(since, until)
        ends = other.end[spans]
        fits = (ends > since) & (ends <= until)
        if other is lane:
            fits &= np.arange(spans.start, spans.start + ends.size) != number
        if fits.any():
            index = int(np.argmax(np.where(fits, ends, -1)))
            candidate = (int(ends[index]), other is lane, Cause(other, spans.start + index))
            if best is None or candidate[:2] > best[:2]:
                best = candidate
    return best[2] if best else None


_WORK = (SpanKind.KERNEL, SpanKind.COPY, SpanKind.COLLECTIVE)


class _Describer:
    def __init__(self, layout: TimelineLayout, lane: Lane, number: int, times: str) -> None:
        self._layout, self._lane, self._number = layout, lane, number
        self._rows = rows = layout.rows(lane)
        self._row = row = int(lane.row[number])
        self._span = SpanKind(int(lane.span[number]))
        self._times = times
        self._name = rows.names[rows.name[row]]
        self._place = rows.place_at(row)
        self._size, self._duration, self._launched = (
            int(column[row]) for column in (rows.size, rows.duration, rows.launched)
        )
        self._is_copy = bool(rows.kind[row] == Kind.TRANSFER.number)

    def describe(self) -> EventDescription:
        hazard = int(self._lane.hazard[self._number])
        facts = [fact for fact in (*self._facts(), self._waited()) if fact]
        hazards: tuple[str, ...] = ()
        earlier = NOWHERE
        if hazard >= 0:
            group = hazard_of(self._rows, hazard)
            hazards, earlier = (group.sentence, group.what_to_do.rstrip(".")), group.earlier
        return EventDescription(self._title(), tuple(facts), hazards, self._place, earlier)

    def _title(self) -> str:
        name = self._name
        match self._span:
            case SpanKind.KERNEL | SpanKind.COLLECTIVE:
                return f"{name} on {self._lane.title}"
            case SpanKind.COPY | SpanKind.HOST_COPY:
                waits = ", and the host waits" if self._span is SpanKind.HOST_COPY else ""
                return f"Copy of {size(self._size)} {self._direction()}{waits}"
            case SpanKind.WAIT:
                return f"The host waits {_WAITS.get(name, f'in {name}')}"
            case SpanKind.COMPUTE:
                return f"{name} on the CPU"
            case SpanKind.LAUNCH:
                return f"Launch of {f'a copy {self._direction()}' if self._is_copy else name}"
            case SpanKind.RANGE:
                return f"Range {name}"
            case SpanKind.HAZARD:
                return f"Hazard: {name}"
            case _:
                return f"Out of memory: {size(self._size)} asked for on {self._device()}"

    def _facts(self) -> list[str]:
        match self._span:
            case SpanKind.KERNEL | SpanKind.COMPUTE:
                return [self._when(), self._work()]
            case SpanKind.COLLECTIVE:
                return [self._when(), f"{size(self._size)} sent{_bracket(bandwidth(self._size, self._duration))}"]
            case SpanKind.COPY | SpanKind.HOST_COPY:
                partner = int(self._rows.partner[self._row])
                before = f"The same bytes were copied before, at {self._rows.place_at(partner)}" if partner >= 0 else ""
                return [self._when(), self._copied(), before]
            case SpanKind.LAUNCH:
                return [self._done()]
            case SpanKind.HAZARD:
                return [f"Met at {self._at()}"]
            case SpanKind.OUT_OF_MEMORY:
                return [f"At {self._at()}, when {size(int(self._rows.allocated[self._row]))} were allocated"]
            case _:
                return [self._when()]

    def _device(self) -> str:
        return str(self._rows.devices[self._rows.device[self._row]])

    def _direction(self) -> str:
        rows, row = self._rows, self._row
        ends = [rows.devices[rows.source[row]], rows.devices[rows.target[row]]]
        source, target = ("the host" if device == "cpu" else device for device in ends)
        return f"from {source} to {target}"

    def _at(self) -> str:
        return duration(self._launched - self._layout.begin)

    def _when(self) -> str:
        start, end = int(self._lane.start[self._number]), int(self._lane.end[self._number])
        whole = (end - start) / (self._layout.finish - self._layout.begin)
        part = f", {share(whole)} of the whole" if whole >= 0.001 else ""
        known = f" ({self._times})" if self._times else ""
        begin = self._layout.begin
        return f"{span_words(start - begin, end - begin)}: {duration(end - start)}{known}{part}"

    def _work(self) -> str:
        words = []
        if self._size:
            words.append(f"{size(self._size)} in and out{_bracket(bandwidth(self._size, self._duration))}")
        if flops := float(self._rows.flops[self._row]):
            words.append(f"{operations(flops)}{_bracket(speed(flops, self._duration))}")
        words.append(DTYPES[self._rows.dtype[self._row]])
        if programs := int(self._rows.programs[self._row]):
            requested, moved = int(self._rows.requested[self._row]), int(self._rows.moved[self._row])
            words.append(f"{programs:,} program{'s' * (programs != 1)}")
            words.append(f"{size(requested)} asked for, {size(moved)} moved")
        return ", ".join(filter(None, words))

    def _copied(self) -> str:
        stream = int(self._rows.stream[self._row])
        where = "the default stream" if stream == 0 else f"stream {stream}"
        if self._rows.asynchronous[self._row]:
            how = "asynchronous: the host continues"
        elif self._lane.kind is LaneKind.TO_HOST:
            how = "the host waits for it"
        else:
            how = "the host waits: not pinned, or without non_blocking"
        rate = bandwidth(self._size, self._duration)
        return ", ".join(filter(None, [rate, f"on {where} of {self._device()}", how]))

    def _done(self) -> str:
        if not self._rows.timed[self._row]:
            return f"Done at {self._at()}; when it ran is not known"
        later = int(self._rows.start[self._row]) - self._launched
        when = f"{duration(later)} later" if later > 0 else "at once"
        return f"Done at {self._at()}; it begins {when}, and takes {duration(self._duration)}"

    def _waited(self) -> str:
        cause = cause_of(self._layout, self._lane, self._number)
        if self._span is SpanKind.WAIT:
            if cause is None:
                return "Nothing was left to wait for"
            before = cause_of(self._layout, *cause) if cause.lane.kind is LaneKind.TO_HOST else None
            of_it = f", which waited for {self._name_of(before)}" if before else ""
            return f"Waited for {self._name_of(cause)}{of_it}"
        if self._span not in _WORK or self._launched < 0:
            return ""
        wait = int(self._rows.start[self._row]) - self._launched
        if wait <= 0:
            return f"Launched at {self._at()}, began at once"
        words = f"Launched at {self._at()}, waited {duration(wait)}"
        if cause is not None:
            return f"{words} for {self._name_of(cause)}"
        return f"{words} for the other ranks" if self._span is SpanKind.COLLECTIVE else words

    def _name_of(self, cause: Cause) -> str:
        """Return text like `aten::mm on stream 3 (train.py:12)`."""
        other = _Describer(self._layout, *cause, "")
        what = f"the copy {other._direction()}" if other._is_copy else other._name
        where = "" if other._is_copy else " before it" if cause.lane is self._lane else f" on {cause.lane.title}"
        return f"{what}{where}" + (f" ({other._place})" if other._place.line is not None else "")


def span_words(start: int, end: int) -> str:
    """Return text like `62.101 to 62.116 ms`, with enough digits to distinguish the two times."""
    unit, factor = next(((unit, factor) for unit, factor in UNITS if end >= factor), ("ns", 1))
    digits, least = 0, factor
    while least > 1 and least * 20 > end - start:
        digits, least = digits + 1, least // 10
    digits = max(digits, 0 if factor == 1 else 1)
    return f"{start / factor:,.{digits}f} to {end / factor:,.{digits}f} {unit}"


def _bracket(words: str) -> str:
    return f" ({words})" if words else ""

"""A summary in words, for a terminal of 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os.path import commonpath, dirname, relpath

from gpututor.plain_text import visible
from gpututor.trace.rows import Place
from gpututor.trace.summary import CopyGroup, DeviceSummary, LineSummary, Summary
from gpututor.trace.units import duration, share, size

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


def in_words(summary: Summary, *, modelled: bool = False) -> str:
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
    return visible(text).replace("\n", "\\n").replace("\t", " ")


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

"""Trace columns as NumPy arrays: intervals, and the shares of time that devices were busy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from os.path import basename
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpututor.trace.columns import TYPES, Trace, TraceError
from gpututor.trace.events import DTYPES, Kind

Numbers = NDArray[np.int64]
Mask = NDArray[np.bool_]


class Place(NamedTuple):
    """A line of somebody's file; `NOWHERE` is none."""

    file: str
    line: int | None

    def __str__(self) -> str:
        """`train.py:12`, without the folder."""
        return f"{basename(self.file)}:{self.line}" if self.line is not None else "outside your files"


_LARGEST = 1 << 60
"""Nanoseconds, 36 years: sums of such times still fit."""
NOWHERE = Place("", None)


class Intervals(NamedTuple):
    """Times in nanoseconds, from `start` to `end`, in the order of their starts."""

    start: Numbers
    end: Numbers

    @property
    def total(self) -> int:
        """The sum of their lengths."""
        return int((self.end - self.start).sum())


class TraceArrays:
    """The columns of a trace. Times are in nanoseconds, int64; a mask picks rows."""

    def __init__(self, trace: Trace, whole: tuple[int, int] | None = None) -> None:
        """`whole` is when the program began and ended, where that is known."""
        self.trace = trace
        columns = trace.columns()
        found = {name: np.frombuffer(columns[name], dtype=columns[name].typecode) for name in TYPES}
        self.kind, self.name, self.device, self.stream = (found[one] for one in ("kind", "name", "device", "stream"))
        self.source, self.target, self.size = (found[one] for one in ("source", "target", "size_bytes"))
        self.flops, self.asynchronous = found["flops"], found["asynchronous"].astype(bool)
        self.dtype = found["dtype"]
        self.launched, self.start, self.end = (found[one] for one in ("launched", "start", "end"))
        self.allocated, self.partner, self.file, self.line = (
            found[one] for one in ("allocated", "partner", "file", "line")
        )
        self.names, self.devices, self.files = (one.texts() for one in (trace.names, trace.devices, trace.files))
        self.timed: Mask = (self.start >= 0) & (self.end >= self.start)
        self.duration: Numbers = np.where(self.timed, self.end - self.start, 0)
        self.place: Numbers = (self.file.astype(np.int64) << 32) | self.line
        """A number for each file and line; 0 is none."""
        known = [values[values >= 0] for values in (self.launched, self.start, self.end)]
        self.begin = min((int(one.min()) for one in known if one.size), default=0)
        self.finish = max((int(one.max()) for one in known if one.size), default=0)
        if whole is not None:
            self.begin, self.finish = whole

    def check(self) -> None:
        """Raise `TraceError` where a number leads nowhere, as it may in a damaged file."""
        devices, times = ("device", "source", "target"), ("launched", "start", "end")
        bounds = {
            "kind": (1, len(Kind)),
            "name": (0, len(self.names) - 1),
            **dict.fromkeys(devices, (0, len(self.devices) - 1)),
            "file": (0, len(self.files) - 1),
            "dtype": (0, len(DTYPES) - 1),
            "partner": (-1, len(self.kind) - 1),
            "line": (0, _LARGEST),
            **dict.fromkeys(times, (-1, _LARGEST)),
        }
        for name, (least, most) in bounds.items():
            column = getattr(self, name)
            if column.size and not least <= int(column.min()) <= int(column.max()) <= most:
                raise TraceError(f"its column {name} holds what cannot be")

    @property
    def span(self) -> int:
        """Nanoseconds from the first thing to the last, or of the whole program."""
        return self.finish - self.begin

    def of(self, *kinds: Kind) -> Mask:
        """The rows of these kinds."""
        mask: Mask = np.isin(self.kind, [kind.number for kind in kinds])
        return mask

    def on(self, device: str) -> Mask:
        """The rows of one device."""
        mask: Mask = self.device == self.trace.devices.get(device, -1)
        return mask

    def accelerators(self) -> list[str]:
        """The devices that did something, without the CPU, in the order of their names."""
        used = {self.devices[number] for number in np.unique(self.device)}
        return sorted(used - {"", "cpu"}, key=lambda name: (name.split(":")[0], len(name), name))

    def place_of(self, number: int) -> Place:
        """The place for a number of the column `place`."""
        line = int(number) & 0xFFFFFFFF
        return Place(self.files[int(number) >> 32], line) if line else NOWHERE

    def dtype_of(self, row: int) -> str:
        """The floating type that a kernel ran in; empty where it has none."""
        return DTYPES[self.dtype[row]]

    def intervals(self, mask: Mask) -> Intervals:
        """When the rows ran, those whose times are known."""
        mask = mask & self.timed
        start, end = self.start[mask], self.end[mask]
        order = np.argsort(start, kind="stable")
        return Intervals(start[order], end[order])

    def groups(self, mask: Mask, *keys: NDArray[Any]) -> Iterator[tuple[tuple[int, ...], Numbers]]:
        """The rows of `mask` in groups with the same values of `keys`: (values, the numbers of the rows)."""
        rows = np.flatnonzero(mask)
        if not rows.size:
            return
        stacked = np.stack([key[rows].astype(np.int64) for key in keys])
        order = np.lexsort(stacked[::-1])
        stacked, rows = stacked[:, order], rows[order]
        cuts = np.flatnonzero((stacked[:, 1:] != stacked[:, :-1]).any(axis=0)) + 1
        for begin, end in zip([0, *cuts], [*cuts, rows.size], strict=True):
            yield tuple(int(value) for value in stacked[:, begin]), np.sort(rows[begin:end])


def merged(intervals: Intervals) -> Intervals:
    """The same times without overlaps: intervals that touch become one."""
    start, end = intervals
    if not start.size:
        return intervals
    reached = np.maximum.accumulate(end)
    opens = np.flatnonzero(np.append(True, start[1:] > reached[:-1]))
    return Intervals(start[opens], reached[np.append(opens[1:] - 1, start.size - 1)])


def within(intervals: Intervals, begin: int, end: int) -> Intervals:
    """The parts between two moments."""
    start, stop = np.clip(intervals.start, begin, end), np.clip(intervals.end, begin, end)
    return Intervals(start, stop)


def common(left: Intervals, right: Intervals) -> int:
    """Nanoseconds in which both are; each without overlaps of its own (`merged`)."""
    if not left.start.size or not right.start.size:
        return 0
    return int((_covered(right, left.end) - _covered(right, left.start)).sum())


def _covered(intervals: Intervals, moments: Numbers) -> Numbers:
    """How much of merged intervals lies before each moment."""
    lengths = np.append(0, np.cumsum(intervals.end - intervals.start))
    number = np.searchsorted(intervals.start, moments, side="right")
    inside = np.where(number > 0, moments - intervals.end[np.maximum(number - 1, 0)], 0)
    covered: Numbers = lengths[number] + np.minimum(inside, 0)
    return covered


@dataclass(frozen=True, slots=True)
class TimeShares:
    """Nanoseconds of one device; together they are the whole time."""

    device: str
    computing: int
    """Kernels or collectives ran, whatever else went on."""
    copying: int
    """Only copies ran."""
    waiting: int
    """Nothing ran on the device, and the host waited for it."""
    idle: int
    """Nothing ran on the device, and the host did something else: it launched, or computed itself."""

    @property
    def whole(self) -> int:
        return self.computing + self.copying + self.waiting + self.idle


def time_shares(rows: TraceArrays, elapsed: int = 0) -> tuple[TimeShares, ...]:
    """For each accelerator; `elapsed` is the whole time, where it is known to be longer than the trace."""
    found = []
    for device in rows.accelerators():
        here = rows.on(device)
        kernels = merged(rows.intervals(here & rows.of(Kind.KERNEL, Kind.COLLECTIVE)))
        work = merged(rows.intervals(here & rows.of(Kind.KERNEL, Kind.COLLECTIVE, Kind.TRANSFER)))
        waits = rows.intervals(rows.of(Kind.SYNCHRONISE))
        engaged = merged(_together(work, waits))
        whole = max(elapsed, rows.span, engaged.total)
        found.append(
            TimeShares(
                device,
                kernels.total,
                work.total - kernels.total,
                engaged.total - work.total,
                whole - engaged.total,
            )
        )
    return tuple(found)


def _together(left: Intervals, right: Intervals) -> Intervals:
    start, end = np.concatenate([left.start, right.start]), np.concatenate([left.end, right.end])
    order = np.argsort(start, kind="stable")
    return Intervals(start[order], end[order])

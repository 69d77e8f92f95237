"""Trace columns as NumPy arrays: masks, groups, intervals and the shares of time of each device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from os.path import basename
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpututor.trace.columns import TYPES, Trace
from gpututor.trace.events import WORK, Kind

Numbers = NDArray[np.int64]
Mask = NDArray[np.bool_]


class Place(NamedTuple):
    """A line of a file, or `NOWHERE`."""

    file: str
    line: int | None

    def __str__(self) -> str:
        """Return text like `train.py:12`, without the folder."""
        return f"{basename(self.file)}:{self.line}" if self.line is not None else "outside your files"


NOWHERE = Place("", None)


class Intervals(NamedTuple):
    """Times in nanoseconds from `start` to `end`, in the order of their starts."""

    start: Numbers
    end: Numbers

    @property
    def total(self) -> int:
        return int((self.end - self.start).sum())


class TraceArrays:
    """Columns of a trace. Times are in nanoseconds, int64; a mask selects rows."""

    def __init__(self, trace: Trace, whole: tuple[int, int] | None = None) -> None:
        """`whole` is the begin and the end of the program, if known."""
        self.trace = trace
        columns = trace.columns()
        arrays = [np.frombuffer(columns[name], dtype=columns[name].typecode) for name in TYPES]
        self.kind, self.name, self.device, self.stream, self.source, self.target, self.size, self.flops = arrays[:8]
        self.dtype, asynchronous, self.launched, self.start, self.end, self.allocated, self.partner = arrays[8:15]
        self.file, self.line, self.requested, self.moved, self.programs = arrays[15:]
        self.asynchronous: Mask = asynchronous.astype(bool)
        self.names, self.devices, self.files = (table.texts() for table in (trace.names, trace.devices, trace.files))
        self.timed: Mask = (self.start >= 0) & (self.end >= self.start)
        self.duration: Numbers = np.where(self.timed, self.end - self.start, 0)
        self.place: Numbers = (self.file.astype(np.int64) << 32) | self.line
        """A number for each file and line; 0 without a line."""
        cpu, copies = trace.devices.get("cpu", -1), self.of(Kind.TRANSFER)
        self.from_host: Mask = copies & (self.source == cpu) & (self.target != cpu)
        """Copies from the host to a device."""
        self.to_host: Mask = copies & (self.target == cpu) & (self.source != cpu)
        self.between: Mask = copies & (self.source != cpu) & (self.target != cpu)
        """Copies from device to device."""
        known = [values[values >= 0] for values in (self.launched, self.start, self.end)]
        self.begin = min((int(values.min()) for values in known if values.size), default=0)
        self.finish = max((int(values.max()) for values in known if values.size), default=0)
        if whole is not None:
            self.begin, self.finish = whole

    @property
    def span(self) -> int:
        """Nanoseconds from the first event to the last, or of the whole program."""
        return self.finish - self.begin

    def of(self, *kinds: Kind) -> Mask:
        mask: Mask = np.isin(self.kind, [kind.number for kind in kinds])
        return mask

    def on(self, device: str) -> Mask:
        mask: Mask = self.device == self.trace.devices.get(device, -1)
        return mask

    def work(self, device: str) -> Mask:
        """Return a mask of the work of one device: kernels, copies and collectives."""
        return self.on(device) & self.of(*WORK)

    def on_devices(self) -> Mask:
        return self.of(*WORK) & ~self.on("cpu")

    def on_host(self) -> Mask:
        return self.on("cpu") & self.of(Kind.KERNEL)

    def accelerators(self) -> list[str]:
        """Return the names of the devices with events, without the CPU, sorted."""
        used = {self.devices[number] for number in np.unique(self.device)}
        return sorted(used - {"", "cpu"}, key=lambda name: (name.split(":")[0], len(name), name))

    def place_of(self, number: int) -> Place:
        """Return the place for a number of the column `place`."""
        line = int(number) & 0xFFFFFFFF
        return Place(self.files[int(number) >> 32], line) if line else NOWHERE

    def place_at(self, row: Any) -> Place:
        return self.place_of(self.place[row])

    def intervals(self, mask: Mask) -> Intervals:
        """Return the times of those rows whose times are known."""
        return intervals_of(self, np.flatnonzero(mask & self.timed))

    def groups(self, mask: Mask, *keys: NDArray[Any]) -> Iterator[tuple[tuple[int, ...], Numbers]]:
        """Yield the rows of `mask` in groups with the same values of `keys`: (values, the rows' numbers)."""
        rows = np.flatnonzero(mask)
        if not rows.size:
            return
        stacked = np.stack([key[rows].astype(np.int64) for key in keys])
        order = np.lexsort(stacked[::-1])
        stacked, rows = stacked[:, order], rows[order]
        cuts = np.flatnonzero((stacked[:, 1:] != stacked[:, :-1]).any(axis=0)) + 1
        for begin, end in zip([0, *cuts], [*cuts, rows.size], strict=True):
            yield tuple(int(value) for value in stacked[:, begin]), np.sort(rows[begin:end])


def intervals_of(rows: TraceArrays, group: Numbers) -> Intervals:
    """Return the times of the rows with these numbers, whose times are known."""
    start, end = rows.start[group], rows.end[group]
    order = np.argsort(start, kind="stable")
    return Intervals(start[order], end[order])


def merged(intervals: Intervals) -> Intervals:
    """Return the same times without overlaps: intervals that touch are joined."""
    start, end = intervals
    if not start.size:
        return intervals
    reached = np.maximum.accumulate(end)
    opens = np.flatnonzero(np.append(True, start[1:] > reached[:-1]))
    return Intervals(start[opens], reached[np.append(opens[1:] - 1, start.size - 1)])


def within(intervals: Intervals, begin: int, end: int) -> Intervals:
    """Return the parts between two moments."""
    return Intervals(np.clip(intervals.start, begin, end), np.clip(intervals.end, begin, end))


def common(left: Intervals, right: Intervals) -> int:
    """Return the nanoseconds that two sets of merged intervals share."""
    covered = Coverage(right)
    return int((covered.before(left.end) - covered.before(left.start)).sum())


class Coverage:
    """Cumulative time of merged intervals, for many look-ups."""

    def __init__(self, intervals: Intervals) -> None:
        self._start, self._end = intervals
        self._sums = np.append(0, np.cumsum(self._end - self._start))

    def before(self, moments: Numbers) -> Numbers:
        """Return the nanoseconds before each moment."""
        number = np.searchsorted(self._start, moments, side="right")
        inside = np.where(number > 0, moments - self._end[np.maximum(number - 1, 0)], 0) if self._end.size else 0
        covered: Numbers = self._sums[number] + np.minimum(inside, 0)
        return covered


@dataclass(frozen=True, slots=True)
class TimeShares:
    """Nanoseconds of one device that add up to the whole time."""

    device: str
    computing: int
    """Time with kernels or collectives."""
    copying: int
    """Time with copies only."""
    waiting: int
    """Time in which the device was idle and the host waited for it."""
    idle: int
    """Time in which the device was idle and the host launched, or computed itself."""

    @property
    def whole(self) -> int:
        return self.computing + self.copying + self.waiting + self.idle


def time_shares(rows: TraceArrays, elapsed: int = 0) -> tuple[TimeShares, ...]:
    """Return the shares of each accelerator; `elapsed` is the whole time if that is longer than the trace."""
    shares = []
    for device in rows.accelerators():
        kernels = merged(rows.intervals(rows.on(device) & rows.of(Kind.KERNEL, Kind.COLLECTIVE)))
        work = rows.work(device)
        engaged = merged(rows.intervals(work | rows.of(Kind.SYNCHRONISE)))
        working = merged(rows.intervals(work)).total
        whole = max(elapsed, rows.span, engaged.total)
        copying, waiting, idle = working - kernels.total, engaged.total - working, whole - engaged.total
        shares.append(TimeShares(device, kernels.total, copying, waiting, idle))
    return tuple(shares)

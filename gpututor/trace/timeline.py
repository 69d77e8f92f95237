"""Timelines: lanes of spans, binned to terminal columns with cumulative sums, so any number of events is fast."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum

import numpy as np
from numpy.typing import NDArray

from gpututor.trace.arrays import Coverage, Intervals, Mask, Numbers, TraceArrays, merged
from gpututor.trace.events import Kind


class SpanKind(IntEnum):
    """Kinds of spans. If two fill the same share of a cell, the first of them is shown."""

    KERNEL = 1
    COLLECTIVE = 2
    COPY = 3
    WAIT = 4
    COMPUTE = 5
    """An operator on the CPU."""
    HOST_COPY = 6
    """A copy of pageable memory, which blocks the host."""
    LAUNCH = 7
    RANGE = 8
    HAZARD = 9
    """A hazard of the host, such as memory that is freed too early. It has no length."""
    OUT_OF_MEMORY = 10


class LaneKind(StrEnum):
    """Kinds of lanes."""

    RANGES = "ranges"
    HOST = "host"
    TO_DEVICE = "copies to the device"
    STREAM = "stream"
    BETWEEN = "copies between devices"
    TO_HOST = "copies to the host"
    COLLECTIVES = "collectives"


@dataclass(frozen=True)
class LaneCells:
    """Cells of a lane, from left to right; arrays of one length."""

    kind: NDArray[np.int8]
    """The `SpanKind` that fills most of the cell; 0 for an empty cell."""
    fill: NDArray[np.float64]
    """Share of the cell's time with any span, 0 to 1."""
    count: Numbers
    """Number of spans that touch the cell."""
    first: Numbers
    """Number of the first span that touches the cell, or of the next span."""
    hazard: Mask
    """True if a hazard is in the cell."""
    wait: Mask
    """True if the host waits in the cell."""


class Lane:
    """Spans in the order of their starts: arrays of one length, times in nanoseconds."""

    def __init__(
        self,
        name: str,
        title: str,
        kind: LaneKind,
        process: int,
        device: str,
        spans: tuple[Numbers, Numbers, Numbers, Numbers],
        hazard: Numbers,
    ) -> None:
        """`spans`: kinds, rows, starts, ends. `hazard`: the row of each span's hazard, or -1."""
        kinds, rows, start, end = spans
        order = np.lexsort((end, start))
        self.name = name
        """A short name: `rank 1 default`."""
        self.title = title
        """A name for sentences: `the default stream of cuda:0`."""
        self.kind, self.process, self.device = kind, process, device
        self.span: NDArray[np.int8] = kinds[order].astype(np.int8)
        self.row: Numbers = rows[order]
        """Rows in the process's `TraceArrays`."""
        self.start: Numbers = start[order]
        self.end: Numbers = end[order]
        self.hazard: Numbers = hazard[order]
        # Spans without a length get a nanosecond, to be in a cell.
        self._seen_end: Numbers = np.maximum(self.end, self.start + 1)
        self._reached: Numbers = np.maximum.accumulate(self._seen_end) if len(self) else self._seen_end
        self._ends: Numbers = np.sort(self._seen_end)
        self._all = _coverage(self.start, self._seen_end)
        self._by_kind = {
            int(kind): _coverage(self.start[self.span == kind], self._seen_end[self.span == kind])
            for kind in np.unique(self.span)
        }
        marked = (self.hazard >= 0) | np.isin(self.span, (SpanKind.HAZARD, SpanKind.OUT_OF_MEMORY))
        self._hazards: Numbers = self.start[marked]

    def __len__(self) -> int:
        return int(self.start.size)

    @property
    def finish(self) -> int:
        return int(self._reached[-1])

    def visible(self, begin: int, end: int, columns: int) -> LaneCells:
        """Return the time from `begin` to `end` in equal cells of at least a nanosecond."""
        edges = edges_of(begin, end, columns)
        left, right = edges[:-1], edges[1:]
        kind = np.zeros(columns, np.int8)
        most = np.zeros(columns, np.int64)
        for number, covered in self._by_kind.items():
            inside = np.diff(covered.before(edges))
            more = inside > most
            kind[more], most[more] = number, inside[more]
        waits = self._by_kind.get(SpanKind.WAIT)
        return LaneCells(
            kind=kind,
            fill=np.diff(self._all.before(edges)) / (right - left),
            count=np.searchsorted(self.start, right) - np.searchsorted(self._ends, left, side="right"),
            first=np.searchsorted(self._reached, left, side="right"),
            hazard=np.searchsorted(self._hazards, right) > np.searchsorted(self._hazards, left),
            wait=np.zeros(columns, np.bool_) if waits is None else np.diff(waits.before(edges)) > 0,
        )

    def between(self, begin: int, end: int) -> slice:
        """Return a slice that includes all spans in this time."""
        first = int(np.searchsorted(self._reached, begin, side="right"))
        return slice(first, max(first, int(np.searchsorted(self.start, end))))

    def busy(self, begin: int, end: int) -> float:
        """Return the share of this time with any span, 0 to 1."""
        return float(np.diff(self._all.before(np.array([begin, end])))[0] / (end - begin)) if end > begin else 0.0

    def nearest(self, moment: int) -> int:
        """Return the number of the newest span at a moment, or of the nearest span; -1 for an empty lane."""
        if not len(self):
            return -1
        distance = np.maximum(np.maximum(self.start - moment, moment - self._seen_end + 1), 0)
        return int(np.flatnonzero(distance == distance.min())[-1])

    def distance(self, number: int, moment: int) -> int:
        """Return the nanoseconds from a moment to a span; 0 inside it."""
        return max(int(self.start[number]) - moment, moment - int(self._seen_end[number]) + 1, 0)


def _coverage(start: Numbers, end: Numbers) -> Coverage:
    return Coverage(merged(Intervals(start, end)))


def edges_of(begin: int, end: int, columns: int) -> Numbers:
    """Return the edges of cells of at least a whole nanosecond."""
    span = max(end - begin, columns)
    edges: Numbers = begin + np.arange(columns + 1, dtype=np.int64) * span // columns
    return edges


LAUNCH = 5_000
"""Nanoseconds of a launch as drawn, if there is space: a trace contains only the launch's end."""
MOST_RANGE_LANES = 4
"""Number of lanes for ranges; ranges that are nested deeper share the last lane."""
_READABLE_STREAM = 1000
"""Stream numbers from here on are addresses: such streams are shown by a counter."""


class TimelineLayout:
    """Lanes of one or more processes whose clocks agree."""

    def __init__(self, processes: Sequence[tuple[str, TraceArrays]]) -> None:
        """`processes`: names, such as `rank 1`, and traces; a single process has no name."""
        self.processes = tuple(processes)
        self.lanes: tuple[Lane, ...] = tuple(
            lane for number in range(len(processes)) for lane in _LaneBuilder(processes, number).lanes()
        )
        self.begin = min((int(lane.start[0]) for lane in self.lanes), default=0)
        self.finish = max((lane.finish for lane in self.lanes), default=1)
        self.untimed = sum(int((rows.on_devices() & ~rows.timed).sum()) for _, rows in processes)
        """Number of kernels, copies and collectives without known times."""
        self.stops = self._stops()

    @property
    def events(self) -> int:
        return sum(map(len, self.lanes))

    def rows(self, lane: Lane) -> TraceArrays:
        return self.processes[lane.process][1]

    def stop_after(self, lane: int, number: int, by: int = 1) -> tuple[int, int] | None:
        """Return (lane, number) of the next stop after a span, or with `by` -1 of the previous stop."""
        here = (int(self.lanes[lane].start[number]), lane, number)
        times = self.stops[:, 0]
        same_time = range(int(np.searchsorted(times, here[0])), int(np.searchsorted(times, here[0], side="right")))
        before = sum(tuple(self.stops[place].tolist()) < here for place in same_time) + same_time.start
        is_stop = before < len(times) and tuple(self.stops[before].tolist()) == here
        place = before + is_stop if by > 0 else before - 1
        return (int(self.stops[place, 1]), int(self.stops[place, 2])) if 0 <= place < len(times) else None

    def other_end(self, lane: int, number: int) -> tuple[int, int] | None:
        """Return (lane, number) of a launch's work, or of the launch of a piece of work."""
        here = self.lanes[lane]
        row, is_launch = int(here.row[number]), here.span[number] == SpanKind.LAUNCH
        for place, other in enumerate(self.lanes):
            if other.process == here.process and (other.kind is LaneKind.HOST) != is_launch:
                fits = (other.row == row) & (is_launch | (other.span == SpanKind.LAUNCH))
                if fits.any() and other.kind is not LaneKind.RANGES:
                    return place, int(np.argmax(fits))
        return None

    def _stops(self) -> Numbers:
        """Return (time, lane, number) of each hazard, failed allocation and wait, sorted."""
        stops = [np.empty((0, 3), np.int64)]
        for place, lane in enumerate(self.lanes):
            is_stop = (lane.hazard >= 0) | np.isin(lane.span, (SpanKind.WAIT, SpanKind.HAZARD, SpanKind.OUT_OF_MEMORY))
            numbers = np.flatnonzero(is_stop)
            stops.append(np.stack([lane.start[numbers], np.full(numbers.size, place), numbers], axis=1))
        unsorted: Numbers = np.concatenate(stops)
        return unsorted[np.lexsort(unsorted.T[::-1])]


class _LaneBuilder:
    """Distributes the rows of one process to lanes."""

    def __init__(self, processes: Sequence[tuple[str, TraceArrays]], number: int) -> None:
        name, self._rows = processes[number]
        self._number = number
        self._prefix = f"{name} " if name else ""
        self._work = self._rows.on_devices()
        self._devices = self._rows.accelerators()
        self._hazard = np.full(len(self._rows.kind), -1, np.int64)
        self._of_the_host = self._place_hazards()

    def lanes(self) -> Iterator[Lane]:
        yield from self._ranges()
        yield from self._host()
        for device in self._devices:
            yield from self._device(device)

    def _place_hazards(self) -> Numbers:
        """Assign hazards to the work that caused them, and return the rows of the host's hazards."""
        rows = self._rows
        hazards: Numbers = np.flatnonzero(rows.of(Kind.HAZARD))
        candidates = np.flatnonzero(self._work | rows.on_host())
        if not hazards.size or not candidates.size:
            return hazards
        # A hazard is recorded right after the later work.
        work = candidates[np.maximum(np.searchsorted(candidates, hazards) - 1, 0)]
        freed = rows.name[hazards] == rows.trace.names.get("freed in use", -1)
        met = (work < hazards) & (rows.launched[work] == rows.launched[hazards]) & rows.timed[work] & ~freed
        self._hazard[work[met][::-1]] = hazards[met][::-1]
        others: Numbers = hazards[~met]
        return others

    def _ranges(self) -> Iterator[Lane]:
        rows = self._rows
        shown = np.flatnonzero(rows.of(Kind.RANGE) & rows.timed)
        shown = shown[np.lexsort((-rows.end[shown], rows.start[shown]))]
        free: list[int] = []
        depth = []
        for start, end in zip(rows.start[shown].tolist(), rows.end[shown].tolist(), strict=True):
            lane = next((number for number, moment in enumerate(free) if moment <= start), len(free))
            if lane == len(free) < MOST_RANGE_LANES:
                free.append(0)
            lane = min(lane, MOST_RANGE_LANES - 1)
            free[lane] = max(free[lane], end)
            depth.append(lane)
        for number in range(len(free)):
            here = shown[np.array(depth) == number]
            name = "ranges" if number == 0 else f"ranges {number + 1}"
            yield self._lane(name, "the host", LaneKind.RANGES, "cpu", here, SpanKind.RANGE)

    def _host(self) -> Iterator[Lane]:
        """Yield the lane with waits, work on the CPU, launches, and copies that block the host."""
        rows = self._rows
        waits = np.flatnonzero(rows.of(Kind.SYNCHRONISE) & rows.timed)
        computing = np.flatnonzero(rows.on_host() & rows.timed)
        launched = self._work & (rows.launched >= 0)
        held = np.flatnonzero(launched & rows.from_host & ~rows.asynchronous & rows.timed)
        moments = np.concatenate([self._of_the_host, np.flatnonzero(rows.of(Kind.OUT_OF_MEMORY))])
        moments = moments[rows.launched[moments] >= 0]
        launches = np.flatnonzero(launched)
        missing = np.where(rows.kind[moments] == Kind.HAZARD.number, int(SpanKind.HAZARD), int(SpanKind.OUT_OF_MEMORY))
        parts = [
            (np.full(waits.size, int(SpanKind.WAIT)), waits, rows.start[waits], rows.end[waits]),
            (np.full(computing.size, int(SpanKind.COMPUTE)), computing, rows.start[computing], rows.end[computing]),
            (np.full(held.size, int(SpanKind.HOST_COPY)), held, rows.launched[held], rows.end[held]),
            (missing, moments, rows.launched[moments], rows.launched[moments]),
        ]
        others = (np.concatenate([part[place] for part in parts]) for place in (2, 3))
        ends = rows.launched[launches]
        parts.append((np.full(launches.size, int(SpanKind.LAUNCH)), launches, _launches(ends, *others), ends))
        kinds, numbers, start, end = (np.concatenate(column) for column in zip(*parts, strict=True))
        if numbers.size:
            hazard = np.where(kinds == SpanKind.COMPUTE, self._hazard[numbers], -1)
            hazard = np.where(kinds == SpanKind.HAZARD, numbers, hazard)
            spans = (kinds, numbers, start, end)
            yield Lane(f"{self._prefix}host", "the host", LaneKind.HOST, self._number, "cpu", spans, hazard)

    def _device(self, device: str) -> Iterator[Lane]:
        rows = self._rows
        here = self._work & rows.timed & rows.on(device)
        several = len(self._devices) > 1
        whose = f"{device} " if several else ""
        short = several or bool(self._prefix)
        the = "" if short else "the "
        if (up := np.flatnonzero(here & rows.from_host)).size:
            title = f"copies to {device}"
            yield self._lane(f"{whose}to {the}device", title, LaneKind.TO_DEVICE, device, up, SpanKind.COPY)
        yield from self._streams(device, here & rows.of(Kind.KERNEL), whose, short)
        for (source,), group in rows.groups(here & rows.between, rows.source):
            name = f"{whose}from {rows.devices[source]}"
            title = f"copies from {rows.devices[source]} to {device}"
            yield self._lane(name, title, LaneKind.BETWEEN, device, group, SpanKind.COPY)
        if (down := np.flatnonzero(here & rows.to_host)).size:
            title = f"copies from {device}"
            yield self._lane(f"{whose}to {the}host", title, LaneKind.TO_HOST, device, down, SpanKind.COPY)
        groups = rows.groups(here & rows.of(Kind.COLLECTIVE), rows.stream)
        for place, (_, group) in enumerate(groups, 1):
            name = f"{whose}collectives" if place == 1 else f"{whose}collectives {place}"
            yield self._lane(name, device, LaneKind.COLLECTIVES, device, group, SpanKind.COLLECTIVE)

    def _streams(self, device: str, kernels: Mask, whose: str, short: bool) -> Iterator[Lane]:
        groups = list(self._rows.groups(kernels, self._rows.stream))
        counted = any(stream >= _READABLE_STREAM for (stream,), _ in groups)
        for place, ((stream,), group) in enumerate(groups, 1):
            number = f"stream {place if counted else stream}"
            name, title = f"{whose}{number}", f"{number} of {device}"
            if stream == 0:
                name = f"{whose}default" if short else "default stream"
                title = f"the default stream of {device}"
            yield self._lane(name, title, LaneKind.STREAM, device, group, SpanKind.KERNEL)

    def _lane(self, name: str, title: str, kind: LaneKind, device: str, numbers: Numbers, span: SpanKind) -> Lane:
        rows = self._rows
        spans = (np.full(numbers.size, int(span)), numbers, rows.start[numbers], rows.end[numbers])
        whose = f"{title} ({self._prefix.rstrip()})" if self._prefix else title
        return Lane(f"{self._prefix}{name}", whose, kind, self._number, device, spans, self._hazard[numbers])


def _launches(launched: Numbers, start: Numbers, end: Numbers) -> Numbers:
    """Return the time at which each launch is drawn: `LAUNCH` before its end, but not during other work of the host."""
    others = np.append(np.sort(end[end > start]), np.iinfo(np.int64).max)
    before = others[np.maximum(np.searchsorted(others, launched, side="right") - 1, 0)]
    earliest = np.maximum(launched - LAUNCH, 0)
    order = np.argsort(launched, kind="stable")
    previous = np.empty_like(launched)
    previous[order] = np.append(np.iinfo(np.int64).min, launched[order][:-1])
    after_others = np.where(before <= launched, np.maximum(earliest, before), earliest)
    return np.minimum(np.maximum(after_others, previous), launched)

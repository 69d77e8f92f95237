"""A lane of a trace's picture: spans in the order of time, and what of them is seen in so many columns.

What a lane's cells hold is counted from sums that were made before, so a million events are drawn as quickly as ten.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum

import numpy as np
from numpy.typing import NDArray

from gpututor.trace.rows import Intervals, Mask, Numbers, merged


class Span(IntEnum):
    """What a span is. Where several fill as much of a cell, the first of these is shown."""

    KERNEL = 1
    COLLECTIVE = 2
    COPY = 3
    WAIT = 4
    """The host waits for a device."""
    COMPUTE = 5
    """An operator on the CPU."""
    HOST_COPY = 6
    """The host is held by a copy of pageable memory, for its own length."""
    LAUNCH = 7
    RANGE = 8
    HAZARD = 9
    """A hazard that belongs to the host, such as memory that is freed too early. It has no length."""
    OUT_OF_MEMORY = 10


class LaneKind(StrEnum):
    """What a lane shows."""

    RANGES = "ranges"
    HOST = "host"
    TO_DEVICE = "copies to the device"
    STREAM = "stream"
    BETWEEN = "copies between devices"
    TO_HOST = "copies to the host"
    COLLECTIVES = "collectives"


@dataclass(frozen=True)
class Cells:
    """What the cells of a lane hold, from left to right; arrays of one length."""

    kind: NDArray[np.int8]
    """The `Span` that fills most of the cell; 0 where none does."""
    fill: NDArray[np.float64]
    """How much of the cell's time any span takes, 0 to 1."""
    count: Numbers
    """How many spans touch the cell."""
    first: Numbers
    """The number of the first span that touches the cell; where none does, of the next one."""
    hazard: Mask
    """Whether a hazard is among them."""
    wait: Mask
    """Whether the host waits in it."""


class Lane:
    """Spans in the order of their starts. Arrays of one length, times in nanoseconds."""

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
        """`spans`: kinds, rows, starts, ends. `hazard`: the hazard's row for each, or -1."""
        kinds, rows, start, end = spans
        order = np.lexsort((end, start))
        self.name = name
        """Short, for a column: `rank 1 default`."""
        self.title = title
        """For a sentence: `the default stream of cuda:0`."""
        self.kind, self.process, self.device = kind, process, device
        self.span: NDArray[np.int8] = kinds[order].astype(np.int8)
        """The `Span` of each."""
        self.row: Numbers = rows[order]
        """Its row in the process's `Rows`."""
        self.start: Numbers = start[order]
        self.end: Numbers = end[order]
        self.hazard: Numbers = hazard[order]
        """The row of the hazard that it met; -1 for none."""
        # What takes no time is given a nanosecond, so that it lies in a cell.
        self._seen_end: Numbers = np.maximum(self.end, self.start + 1)
        self._reached: Numbers = np.maximum.accumulate(self._seen_end) if len(self) else self._seen_end
        self._ends: Numbers = np.sort(self._seen_end)
        self._all = _Covered(self.start, self._seen_end)
        self._by_kind = {
            int(kind): _Covered(self.start[self.span == kind], self._seen_end[self.span == kind])
            for kind in np.unique(self.span)
        }
        marked = (self.hazard >= 0) | np.isin(self.span, (Span.HAZARD, Span.OUT_OF_MEMORY))
        self._hazards: Numbers = self.start[marked]

    def __len__(self) -> int:
        return int(self.start.size)

    @property
    def finish(self) -> int:
        """When everything is over; what takes no time is given a nanosecond here too."""
        return int(self._reached[-1])

    def visible(self, begin: int, end: int, columns: int) -> Cells:
        """The time from `begin` to `end` in so many cells of the same length; at least a nanosecond for each."""
        edges = edges_of(begin, end, columns)
        left, right = edges[:-1], edges[1:]
        fill = self._all.between(edges) / (right - left)
        kind = np.zeros(columns, np.int8)
        most = np.zeros(columns, np.int64)
        for number, covered in self._by_kind.items():
            inside = covered.between(edges)
            more = inside > most
            kind[more], most[more] = number, inside[more]
        waits = self._by_kind.get(Span.WAIT)
        return Cells(
            kind=kind,
            fill=fill,
            count=np.searchsorted(self.start, right) - np.searchsorted(self._ends, left, side="right"),
            first=np.searchsorted(self._reached, left, side="right"),
            hazard=np.searchsorted(self._hazards, right) > np.searchsorted(self._hazards, left),
            wait=np.zeros(columns, np.bool_) if waits is None else waits.between(edges) > 0,
        )

    def between(self, begin: int, end: int) -> slice:
        """The numbers of the spans among which all are that touch this time."""
        first = int(np.searchsorted(self._reached, begin, side="right"))
        return slice(first, max(first, int(np.searchsorted(self.start, end))))

    def busy(self, begin: int, end: int) -> float:
        """How much of this time any span takes, 0 to 1."""
        return float(self._all.between(np.array([begin, end]))[0] / (end - begin)) if end > begin else 0.0

    def nearest(self, moment: int) -> int:
        """The number of the span that is on at a moment, the last that began; else of the nearest; -1 without any."""
        if not len(self):
            return -1
        distance = np.maximum(np.maximum(self.start - moment, moment - self._seen_end + 1), 0)
        return int(np.flatnonzero(distance == distance.min())[-1])

    def distance(self, number: int, moment: int) -> int:
        """Nanoseconds from a moment to a span; 0 inside it."""
        return max(int(self.start[number]) - moment, moment - int(self._seen_end[number]) + 1, 0)


class _Covered:
    """How much of any stretch of time some spans take: what overlaps counts once."""

    def __init__(self, start: Numbers, end: Numbers) -> None:
        self._start, self._end = merged(Intervals(start, end))
        self._before = np.append(0, np.cumsum(self._end - self._start))

    def between(self, edges: Numbers) -> Numbers:
        """Nanoseconds from each edge to the next."""
        number = np.searchsorted(self._start, edges, side="right")
        inside = np.where(number > 0, edges - self._end[np.maximum(number - 1, 0)], 0) if self._end.size else 0
        taken: Numbers = np.diff(self._before[number] + np.minimum(inside, 0))
        return taken


def edges_of(begin: int, end: int, columns: int) -> Numbers:
    """Where cells begin, and where the last one ends: whole nanoseconds, each cell at least one."""
    span = max(end - begin, columns)
    edges: Numbers = begin + np.arange(columns + 1, dtype=np.int64) * span // columns
    return edges

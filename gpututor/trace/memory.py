"""Memory of each device over time: allocations, peaks, and the lines that held the memory.

The host allocates and frees, so times are nanoseconds on the host's clock, not times of kernels. Sizes are bytes, as
`torch.cuda.memory_allocated()` counts them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from gpututor.trace.arrays import NOWHERE, Numbers, Place, TraceArrays
from gpututor.trace.events import Kind

_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class LiveAllocation:
    """Live memory of one line."""

    place: Place
    """`NOWHERE` if no learner's line allocated it."""
    size_bytes: int
    count: int
    """Number of allocations."""


@dataclass(frozen=True, slots=True)
class OutOfMemoryEvent:
    """An allocation that failed."""

    at: int
    place: Place
    size_bytes: int
    allocated: int
    number: int
    """Index of the last memory event before it; -1 if there is none."""


class MemoryReading(NamedTuple):
    """Allocated bytes at a moment."""

    allocated: int
    number: int
    """Index of the last memory event before it; -1 if there is none."""
    moment: int


@dataclass(frozen=True, slots=True)
class Change:
    """An allocation or a release of memory."""

    taken: bool
    size_bytes: int
    place: Place


class MemoryTimeline:
    """Memory of one device in one trace."""

    def __init__(self, rows: TraceArrays, device: str) -> None:
        here = rows.on(device)
        numbers = np.flatnonzero(here & rows.of(Kind.ALLOCATE, Kind.FREE))
        self.device = device
        self._rows, self._numbers = rows, numbers
        self._held: tuple[int, tuple[LiveAllocation, ...]] | None = None
        """The last result of `held`, which is needed often and takes 20 ms for 400,000 events."""
        self.timed = bool(numbers.size) and bool((rows.launched[numbers] >= 0).all())
        """True if times are known. If not, moments are event numbers."""
        self.moments: Numbers = (
            np.maximum.accumulate(rows.launched[numbers]) if self.timed else np.arange(numbers.size, dtype=np.int64)
        )
        self.allocated: Numbers = rows.allocated[numbers]
        """Allocated bytes from each moment on."""
        taken = rows.kind[numbers] == Kind.ALLOCATE.number
        changes = np.where(taken, rows.size[numbers], -rows.size[numbers])
        self.before = int(self.allocated[0] - changes[0]) if numbers.size else 0
        """Allocated bytes before the first event."""
        self.begin = min(rows.begin, int(self.moments[0])) if self.timed else 0
        self.end = max(rows.finish, int(self.moments[-1])) if self.timed else max(numbers.size - 1, 0)
        highest = int(np.argmax(self.allocated)) if numbers.size else -1
        if highest >= 0 and self.allocated[highest] <= self.before:
            highest = -1
        self._peak = highest
        self.refused = tuple(
            OutOfMemoryEvent(
                int(rows.launched[row]) if self.timed else max(int(np.searchsorted(numbers, row)) - 1, 0),
                rows.place_at(row),
                int(rows.size[row]),
                int(rows.allocated[row]),
                int(np.searchsorted(numbers, row)) - 1,
            )
            for row in np.flatnonzero(here & rows.of(Kind.OUT_OF_MEMORY))
        )

    @property
    def peak_bytes(self) -> int:
        return int(self.allocated[self._peak]) if self._peak >= 0 else self.before

    @property
    def least_bytes(self) -> int:
        return min(self.before, int(self.allocated.min())) if self.allocated.size else self.before

    @property
    def peak_at(self) -> int:
        """The moment at which the peak was reached first."""
        return int(self.moments[self._peak]) if self._peak >= 0 else self.begin

    @property
    def peak_place(self) -> Place:
        """The line that reached the peak; `NOWHERE` if the trace begins with it."""
        return self._rows.place_at(self._numbers[self._peak]) if self._peak >= 0 else NOWHERE

    @property
    def peak(self) -> MemoryReading:
        return MemoryReading(self.peak_bytes, self._peak, self.peak_at)

    def reading(self, number: int) -> MemoryReading:
        """Return the reading after event `number`, from 0; -1 is before the first."""
        if number < 0:
            return MemoryReading(self.before, -1, self.begin)
        return MemoryReading(int(self.allocated[number]), number, int(self.moments[number]))

    @property
    def last(self) -> MemoryReading:
        return self.reading(self.moments.size - 1)

    def highest(self, columns: int) -> list[MemoryReading]:
        """Return the highest reading in each of `columns` equal parts of the time."""
        # The first moment of each part, rounded up.
        edges = [self.begin - (self.begin - self.end) * column // columns for column in range(columns)]
        cuts = [*np.searchsorted(self.moments, edges, side="left").tolist(), self.moments.size]
        readings = []
        for start, stop, edge in zip(cuts, cuts[1:], edges, strict=False):
            before = self.reading(start - 1)
            most = self.reading(start + int(np.argmax(self.allocated[start:stop]))) if stop > start else before
            readings.append(most if most.allocated > before.allocated else before._replace(moment=edge))
        return readings

    def column_of(self, moment: int, columns: int) -> int:
        """Return the column of a moment if the time is divided into `columns` equal parts."""
        span = self.end - self.begin
        return min(columns - 1, max(0, (moment - self.begin) * columns // span)) if span else 0

    def last_change(self, number: int) -> Change | None:
        """Return the allocation or release of event `number`; None for -1."""
        if number < 0:
            return None
        rows, row = self._rows, int(self._numbers[number])
        taken = int(rows.kind[row]) == Kind.ALLOCATE.number
        return Change(taken, int(rows.size[row]), rows.place_at(row))

    def held(self, number: int) -> tuple[LiveAllocation, ...]:
        """Return the live memory after event `number` by line, the line with most bytes first."""
        if self._held is None or self._held[0] != number:
            self._held = number, self._held_now(number)
        return self._held[1]

    def _held_now(self, number: int) -> tuple[LiveAllocation, ...]:
        rows, numbers = self._rows, self._numbers
        taken, ends = self._lives
        alive = numbers[taken[(taken <= number) & (ends > number)]]
        places, line_of = np.unique(rows.place[alive], return_inverse=True)
        sizes = np.zeros(places.size, dtype=np.int64)
        np.add.at(sizes, line_of, rows.size[alive])
        counts = np.bincount(line_of, minlength=places.size)
        lines = [
            LiveAllocation(rows.place_of(int(place)), int(size), int(count))
            for place, size, count in zip(places, sizes, counts, strict=True)
        ]
        return tuple(sorted(lines, key=lambda line: (-line.size_bytes, line.place.line or 0)))

    def older(self, number: int) -> int:
        """Return the live bytes after event `number` that were allocated before the trace began."""
        return max(0, self.reading(number).allocated - sum(line.size_bytes for line in self.held(number)))

    @cached_property
    def _lives(self) -> tuple[Numbers, Numbers]:
        """Positions of allocations among the events, and of their releases."""
        rows, numbers = self._rows, self._numbers
        taken = np.flatnonzero(rows.kind[numbers] == Kind.ALLOCATE.number)
        freed = np.flatnonzero(rows.kind[numbers] == Kind.FREE.number)
        partner = rows.partner[numbers[freed]].astype(np.int64)
        position = np.searchsorted(numbers[taken], partner)
        known = (partner >= 0) & (position < taken.size)
        known[known] = numbers[taken][position[known]] == partner[known]
        known[known] = rows.size[numbers[freed[known]]] == rows.size[partner[known]]
        ends = np.full(taken.size, _NEVER, dtype=np.int64)
        ends[position[known]] = freed[known]
        return taken, ends


def memory_curves(rows: TraceArrays) -> tuple[MemoryTimeline, ...]:
    """Return a timeline for each accelerator with memory events, in the order of their names."""
    used = rows.of(Kind.ALLOCATE, Kind.FREE, Kind.OUT_OF_MEMORY)
    return tuple(MemoryTimeline(rows, device) for device in rows.accelerators() if bool((used & rows.on(device)).any()))

"""Memory of each device over time: what was allocated when, the most of it, and which lines held it then.

Memory is taken and given back when the host says so: the times are the host's, in nanoseconds, not those at which a
kernel runs. Sizes are bytes, as `torch.cuda.memory_allocated()` counts them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpututor.trace.events import Kind
from gpututor.trace.rows import NOWHERE, Numbers, Place, Rows

_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Held:
    """What one line had allocated, and nobody had given back yet."""

    place: Place
    """`NOWHERE` for what no line of the learner's took."""
    size_bytes: int
    count: int
    """How many allocations."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Memory that was asked for in vain."""

    at: int
    place: Place
    size_bytes: int
    allocated: int


class MemoryCurve:
    """The memory of one device in one trace."""

    def __init__(self, rows: Rows, device: str) -> None:
        here = rows.on(device)
        numbers = np.flatnonzero(here & rows.of(Kind.ALLOCATE, Kind.FREE))
        self.device = device
        self._rows, self._numbers = rows, numbers
        self.timed = bool(numbers.size) and bool((rows.launched[numbers] >= 0).all())
        """Whether it is known when memory was taken; else only the order is, and moments are numbers of events."""
        self.moments: Numbers = (
            np.maximum.accumulate(rows.launched[numbers]) if self.timed else np.arange(numbers.size, dtype=np.int64)
        )
        self.allocated: Numbers = rows.allocated[numbers]
        """What was allocated from each moment on."""
        taken = rows.kind[numbers] == Kind.ALLOCATE.number
        changes = np.where(taken, rows.size[numbers], -rows.size[numbers])
        self.before = int(self.allocated[0] - changes[0]) if numbers.size else 0
        """What was allocated before the first event."""
        self.begin = min(rows.begin, int(self.moments[0])) if self.timed else 0
        self.end = max(rows.finish, int(self.moments[-1])) if self.timed else max(numbers.size - 1, 0)
        highest = int(np.argmax(self.allocated)) if numbers.size else -1
        if highest >= 0 and self.allocated[highest] <= self.before:
            highest = -1
        self._peak = highest
        self.refused = tuple(
            Refused(
                self._moment_of(int(row)),
                rows.place_of(int(rows.place[row])),
                int(rows.size[row]),
                int(rows.allocated[row]),
            )
            for row in np.flatnonzero(here & rows.of(Kind.OUT_OF_MEMORY))
        )

    @property
    def peak_bytes(self) -> int:
        return int(self.allocated[self._peak]) if self._peak >= 0 else self.before

    @property
    def peak_at(self) -> int:
        """When it was reached first."""
        return int(self.moments[self._peak]) if self._peak >= 0 else self.begin

    @property
    def peak_place(self) -> Place:
        """The line that reached it; `NOWHERE` where it was there from the beginning."""
        return self._rows.place_of(int(self._rows.place[self._numbers[self._peak]])) if self._peak >= 0 else NOWHERE

    def at(self, moment: int) -> int:
        """What was allocated at a moment, in bytes."""
        number = self._number(moment)
        return int(self.allocated[number]) if number >= 0 else self.before

    def change_near(self, moment: int, later: bool) -> int:
        """The moment of the next change after `moment`, or of the last one before it; `moment` where there is none."""
        if later:
            number = int(np.searchsorted(self.moments, moment, side="right"))
            return int(self.moments[number]) if number < self.moments.size else moment
        number = int(np.searchsorted(self.moments, moment, side="left")) - 1
        return int(self.moments[number]) if number >= 0 else moment

    def highest(self, columns: int) -> list[int]:
        """The most that was allocated in each of so many equal parts of the time."""
        edges = np.linspace(self.begin, self.end, columns + 1)[:-1]
        first = np.searchsorted(self.moments, edges, side="left")
        last = np.append(first[1:], self.moments.size)
        if columns and self.moments.size and last[-1] > first[-1]:
            last[-1] = self.moments.size
        carried = [self.before, *self.allocated.tolist()]
        return [max([carried[start], *carried[start + 1 : stop + 1]]) for start, stop in zip(first, last, strict=True)]

    def column_of(self, moment: int, columns: int) -> int:
        """In which of so many equal parts of the time a moment lies."""
        span = self.end - self.begin
        return min(columns - 1, max(0, (moment - self.begin) * columns // span)) if span else 0

    def moment_of(self, column: int, columns: int) -> int:
        """When a part begins."""
        return self.begin + (self.end - self.begin) * column // columns

    def held_at(self, moment: int) -> tuple[Held, ...]:
        """What was allocated at a moment, by line, the line with most bytes first; then what was there before all."""
        return self._held(self._number(moment))

    @cached_property
    def held_at_peak(self) -> tuple[Held, ...]:
        """What was allocated when the peak was reached."""
        return self._held(self._peak)

    def _number(self, moment: int) -> int:
        """The last event until a moment; -1 for none."""
        return int(np.searchsorted(self.moments, moment, side="right")) - 1

    def _moment_of(self, row: int) -> int:
        if self.timed:
            return int(self._rows.launched[row])
        return max(int(np.searchsorted(self._numbers, row)) - 1, 0)

    @cached_property
    def _lives(self) -> tuple[Numbers, Numbers]:
        """Of each allocation: its position among the events, and that of its end."""
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

    def _held(self, number: int) -> tuple[Held, ...]:
        rows, numbers = self._rows, self._numbers
        taken, ends = self._lives
        alive = numbers[taken[(taken <= number) & (ends > number)]]
        places, line_of = np.unique(rows.place[alive], return_inverse=True)
        sizes = np.zeros(places.size, dtype=np.int64)
        np.add.at(sizes, line_of, rows.size[alive])
        counts = np.bincount(line_of, minlength=places.size)
        found = [
            Held(rows.place_of(int(place)), int(size), int(count))
            for place, size, count in zip(places, sizes, counts, strict=True)
        ]
        return tuple(sorted(found, key=lambda one: (-one.size_bytes, one.place.line or 0)))

    def older_at(self, moment: int) -> int:
        """Bytes at a moment that were allocated before the trace began."""
        number = self._number(moment)
        known = sum(one.size_bytes for one in self._held(number))
        return max(0, (int(self.allocated[number]) if number >= 0 else self.before) - known)


def memory_curves(rows: Rows) -> tuple[MemoryCurve, ...]:
    """A curve for each accelerator whose memory was used or asked for, in the order of their names."""
    used = rows.of(Kind.ALLOCATE, Kind.FREE, Kind.OUT_OF_MEMORY)
    return tuple(MemoryCurve(rows, device) for device in rows.accelerators() if bool((used & rows.on(device)).any()))

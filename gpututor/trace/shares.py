"""What a device's time was spent on: each moment counts once, for the most useful thing that happened in it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpututor.trace.events import Kind
from gpututor.trace.rows import Intervals, Rows, merged


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


def time_shares(rows: Rows, elapsed: int = 0) -> tuple[TimeShares, ...]:
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

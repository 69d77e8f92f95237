"""What a trace comes to: by device, by kind, by line, and what is most worth changing. For people and programs.

All times are nanoseconds, all sizes bytes. Where a recorder knew no times, times are 0 and counts still hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gpututor.trace import advice
from gpututor.trace.advice_rules import Advice, Rates
from gpututor.trace.arrays import NOWHERE, Mask, Place, TraceArrays, merged
from gpututor.trace.columns import Trace
from gpututor.trace.events import Kind
from gpututor.trace.hazards import HazardGroup, hazards_of

WORK = (Kind.KERNEL, Kind.TRANSFER, Kind.COLLECTIVE)
"""What keeps a device busy."""


@dataclass(frozen=True, slots=True)
class KernelGroup:
    """The kernels of one name on one device."""

    name: str
    count: int
    time: int
    size_bytes: int
    flops: float


@dataclass(frozen=True, slots=True)
class CopyGroup:
    """The copies from one device to another that the host waited for, or those that it did not."""

    source: str
    target: str
    asynchronous: bool
    """From or to page-locked memory, while the host goes on. The others are called pageable."""
    count: int
    time: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class OutOfMemory:
    """Memory that was asked for in vain."""

    place: Place
    size_bytes: int
    allocated: int


@dataclass(frozen=True, slots=True)
class DeviceSummary:
    """One accelerator."""

    name: str
    busy: int
    """Time in which a kernel, a copy or a collective ran on it."""
    busy_share: float
    """`busy` by the whole span, 0 to 1."""
    kernel_count: int
    kernel_time: int
    """The sum over all kernels: more than the time that passed, where they ran side by side."""
    kernels: tuple[KernelGroup, ...]
    """By name, the longest first."""
    copies: tuple[CopyGroup, ...]
    waits: int
    wait_time: int
    """How long the host waited for it."""
    collective_count: int
    collective_time: int
    collective_bytes: int
    peak_bytes: int
    """The most memory that was allocated at once."""
    peak_place: Place
    """The line that reached it."""
    out_of_memory: tuple[OutOfMemory, ...]
    streams: int
    """How many streams did something."""


@dataclass(frozen=True, slots=True)
class LineSummary:
    """What one line of the program caused, on all accelerators together."""

    place: Place
    kernel_count: int
    kernel_time: int
    copy_count: int
    copy_time: int
    copy_bytes: int
    waits: int
    wait_time: int
    host_count: int
    """Operators on the CPU."""
    host_time: int

    @property
    def time(self) -> int:
        """A measure to sort by: work on devices, and waits beyond it."""
        return max(self.kernel_time + self.copy_time, self.wait_time) + self.host_time


@dataclass(frozen=True, slots=True)
class RangeSummary:
    """The ranges of one name."""

    name: str
    count: int
    time: int


@dataclass(frozen=True, slots=True)
class Summary:
    """What a trace comes to."""

    span: int
    """Of the whole program where its beginning and end are known, else from the first thing to the last."""
    host_computing: int
    """Time of operators on the CPU."""
    host_waiting: int
    """Time in which the host waited for a device."""
    devices: tuple[DeviceSummary, ...]
    lines: tuple[LineSummary, ...]
    """The longest first."""
    ranges: tuple[RangeSummary, ...]
    hazards: tuple[HazardGroup, ...]
    advice: tuple[Advice, ...]
    """What is most worth changing, the best first; hazards before all."""
    events: int
    dropped: int
    """How many events are missing here, because there were too many."""
    timed: bool
    """Whether times on the devices are known."""

    def to_json(self) -> dict[str, Any]:
        """As plain data; places are [file, line]."""
        return asdict(self)


def summary(
    trace: Trace,
    rates: Mapping[str, Rates] | None = None,
    *,
    whole: tuple[int, int] | None = None,
    most_advice: int = 3,
) -> Summary:
    """What `trace` comes to.

    `rates` are the matrix rates of devices by name, for advice on tensor cores; `whole` is when the program began and
    ended, in nanoseconds: else it is what lies between the first event and the last.
    """
    rows = TraceArrays(trace, whole)
    hazards = hazards_of(rows)
    host = rows.on("cpu") & rows.of(Kind.KERNEL)
    waits = rows.of(Kind.SYNCHRONISE)
    return Summary(
        span=rows.span,
        host_computing=merged(rows.intervals(host)).total,
        host_waiting=merged(rows.intervals(waits)).total,
        devices=tuple(_device(rows, name) for name in rows.accelerators()),
        lines=lines_of(rows),
        ranges=_ranges(rows),
        hazards=hazards,
        advice=advice.collect_advice(rows, hazards, rates or {}, most_advice),
        events=len(rows.kind),
        dropped=trace.dropped,
        timed=bool((rows.timed & rows.of(*WORK) & ~host).any()),
    )


def _device(rows: TraceArrays, name: str) -> DeviceSummary:
    here = rows.on(name)
    kernels, waits, collectives = (here & rows.of(one) for one in (Kind.KERNEL, Kind.SYNCHRONISE, Kind.COLLECTIVE))
    memory = np.flatnonzero(here & rows.of(Kind.ALLOCATE, Kind.FREE))
    peak = int(memory[np.argmax(rows.allocated[memory])]) if memory.size else -1
    work = here & rows.of(*WORK)
    busy = merged(rows.intervals(work)).total
    return DeviceSummary(
        name=name,
        busy=busy,
        busy_share=busy / rows.span if rows.span else 0.0,
        kernel_count=int(kernels.sum()),
        kernel_time=_time(rows, kernels),
        kernels=_kernels(rows, kernels),
        copies=_copies(rows, name),
        waits=int(waits.sum()),
        wait_time=_time(rows, waits),
        collective_count=int(collectives.sum()),
        collective_time=_time(rows, collectives),
        collective_bytes=int(rows.size[collectives].sum()),
        peak_bytes=int(rows.allocated[peak]) if peak >= 0 else 0,
        peak_place=rows.place_of(int(rows.place[peak])) if peak >= 0 else NOWHERE,
        out_of_memory=tuple(
            OutOfMemory(rows.place_of(int(rows.place[row])), int(rows.size[row]), int(rows.allocated[row]))
            for row in np.flatnonzero(here & rows.of(Kind.OUT_OF_MEMORY))
        ),
        streams=len(np.unique(rows.stream[work])),
    )


def _time(rows: TraceArrays, mask: Mask) -> int:
    return int(rows.duration[mask].sum())


def _kernels(rows: TraceArrays, kernels: Mask) -> tuple[KernelGroup, ...]:
    found = [
        KernelGroup(
            rows.names[name],
            group.size,
            int(rows.duration[group].sum()),
            int(rows.size[group].sum()),
            float(rows.flops[group].sum()),
        )
        for (name,), group in rows.groups(kernels, rows.name)
    ]
    return tuple(sorted(found, key=lambda one: (-one.time, -one.count, one.name)))


def _copies(rows: TraceArrays, device: str) -> tuple[CopyGroup, ...]:
    number = rows.trace.devices[device]
    ours = rows.of(Kind.TRANSFER) & ((rows.source == number) | (rows.target == number))
    return tuple(
        CopyGroup(
            rows.devices[source],
            rows.devices[target],
            bool(asynchronous),
            group.size,
            int(rows.duration[group].sum()),
            int(rows.size[group].sum()),
        )
        for (source, target, asynchronous), group in rows.groups(ours, rows.source, rows.target, rows.asynchronous)
    )


def lines_of(rows: TraceArrays) -> tuple[LineSummary, ...]:
    """Counts and times of each line, added up in one pass over the rows; the longest first."""
    host = rows.on("cpu") & rows.of(Kind.KERNEL)
    wanted = rows.of(*WORK, Kind.SYNCHRONISE) & (rows.place != 0)
    places, line_of = np.unique(rows.place[wanted], return_inverse=True)

    def count(mask: Mask) -> list[int]:
        return [int(one) for one in np.bincount(line_of[mask[wanted]], minlength=places.size)]

    def add(values: Any, mask: Mask) -> list[int]:
        picked = mask[wanted]
        sums = np.zeros(places.size, dtype=np.int64)
        np.add.at(sums, line_of[picked], values[wanted][picked])
        return [int(one) for one in sums]

    kernels = rows.of(Kind.KERNEL, Kind.COLLECTIVE) & ~host
    copies, waits = rows.of(Kind.TRANSFER), rows.of(Kind.SYNCHRONISE)
    found = [
        LineSummary(rows.place_of(place), *figures)
        for place, *figures in zip(
            places,
            count(kernels),
            add(rows.duration, kernels),
            count(copies),
            add(rows.duration, copies),
            add(rows.size, copies),
            count(waits),
            add(rows.duration, waits),
            count(host),
            add(rows.duration, host),
            strict=True,
        )
    ]
    return tuple(sorted(found, key=lambda one: (-one.time, -one.kernel_count - one.waits, one.place)))


def _ranges(rows: TraceArrays) -> tuple[RangeSummary, ...]:
    found = [
        RangeSummary(rows.names[name], group.size, int(rows.duration[group].sum()))
        for (name,), group in rows.groups(rows.of(Kind.RANGE), rows.name)
    ]
    return tuple(sorted(found, key=lambda one: (-one.time, one.name)))

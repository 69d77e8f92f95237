"""Summary of a trace: totals by device, kind, line and range, with advice; in nanoseconds (0 if unknown) and bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gpututor.trace import advice
from gpututor.trace.advice_rules import Advice, Rates
from gpututor.trace.arrays import NOWHERE, Mask, Numbers, Place, TraceArrays, merged
from gpututor.trace.columns import Trace
from gpututor.trace.events import WORK, Kind
from gpututor.trace.hazards import HazardGroup, hazards_of


@dataclass(frozen=True, slots=True)
class KernelGroup:
    """The kernels of one name on one device."""

    name: str
    count: int
    time: int
    size_bytes: int
    flops: float
    requested_bytes: int = 0
    """Bytes that the loads and stores of the kernels' programs request; 0 if unknown, as for PyTorch's kernels."""
    moved_bytes: int = 0
    """Bytes of the sectors that they touched."""
    programs: int = 0
    """Programs of the largest grid."""
    peak_share: float = 0.0
    """Share of the device's peak bandwidth or peak operations, 0 to 1, whichever is larger; 0 if unknown."""


@dataclass(frozen=True, slots=True)
class CopyGroup:
    """The synchronous or the asynchronous copies from one device to another."""

    source: str
    target: str
    asynchronous: bool
    """True for copies from or to pinned memory for which the host did not wait."""
    count: int
    time: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class OutOfMemory:
    """An allocation that failed."""

    place: Place
    size_bytes: int
    allocated: int


@dataclass(frozen=True, slots=True)
class DeviceSummary:
    """Totals of an accelerator."""

    name: str
    busy: int
    """Time with a kernel, a copy or a collective."""
    busy_share: float
    """`busy` divided by the span, 0 to 1."""
    kernel_count: int
    kernel_time: int
    """Sum over all kernels; each of several concurrent kernels counts."""
    kernels: tuple[KernelGroup, ...]
    """Longest first."""
    copies: tuple[CopyGroup, ...]
    waits: int
    wait_time: int
    collective_count: int
    collective_time: int
    collective_bytes: int
    peak_bytes: int
    peak_place: Place
    """The line that reached the peak."""
    out_of_memory: tuple[OutOfMemory, ...]
    streams: int
    """Number of streams with work."""


@dataclass(frozen=True, slots=True)
class LineSummary:
    """Work caused by one line of the program, on all accelerators together."""

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
        """Sort key: the longer of device work and waits, plus work on the CPU."""
        return max(self.kernel_time + self.copy_time, self.wait_time) + self.host_time


@dataclass(frozen=True, slots=True)
class RangeSummary:
    """The ranges of one name."""

    name: str
    count: int
    time: int


@dataclass(frozen=True, slots=True)
class Summary:
    """Totals of a trace."""

    span: int
    """Nanoseconds of the whole program if known, else from the first event to the last."""
    host_computing: int
    """Time of operators on the CPU."""
    host_waiting: int
    """Time in which the host waited for a device."""
    devices: tuple[DeviceSummary, ...]
    lines: tuple[LineSummary, ...]
    """Longest first."""
    ranges: tuple[RangeSummary, ...]
    hazards: tuple[HazardGroup, ...]
    advice: tuple[Advice, ...]
    """Hazards first, then by gain."""
    events: int
    dropped: int
    """Number of events beyond the trace's limit, which are missing here."""
    timed: bool
    """True if times on the devices are known."""

    def to_json(self) -> dict[str, Any]:
        """Return plain data; places are [file, line]."""
        return asdict(self)


def summary(
    trace: Trace,
    rates: Mapping[str, Rates] | None = None,
    *,
    whole: tuple[int, int] | None = None,
    most_advice: int = 3,
) -> Summary:
    """Return the summary of `trace`.

    `rates` are the peak rates of devices by name, for advice on tensor cores. `whole` is the (begin, end) of the
    program in nanoseconds, by default from the first event to the last.
    """
    rows = TraceArrays(trace, whole)
    hazards = hazards_of(rows)
    host = rows.on_host()
    return Summary(
        span=rows.span,
        host_computing=merged(rows.intervals(host)).total,
        host_waiting=merged(rows.intervals(rows.of(Kind.SYNCHRONISE))).total,
        devices=tuple(_device(rows, name, (rates or {}).get(name)) for name in rows.accelerators()),
        lines=lines_of(rows),
        ranges=_ranges(rows),
        hazards=hazards,
        advice=advice.collect_advice(rows, hazards, rates or {}, most_advice),
        events=len(rows.kind),
        dropped=trace.dropped,
        timed=bool((rows.timed & rows.of(*WORK) & ~host).any()),
    )


def _device(rows: TraceArrays, name: str, rates: Rates | None) -> DeviceSummary:
    here = rows.on(name)
    kernels, waits, collectives = (here & rows.of(kind) for kind in (Kind.KERNEL, Kind.SYNCHRONISE, Kind.COLLECTIVE))
    memory = np.flatnonzero(here & rows.of(Kind.ALLOCATE, Kind.FREE))
    peak = int(memory[np.argmax(rows.allocated[memory])]) if memory.size else -1
    work = rows.work(name)
    busy = merged(rows.intervals(work)).total
    return DeviceSummary(
        name=name,
        busy=busy,
        busy_share=busy / rows.span if rows.span else 0.0,
        kernel_count=int(kernels.sum()),
        kernel_time=_time(rows, kernels),
        kernels=_kernels(rows, kernels, rates),
        copies=_copies(rows, name),
        waits=int(waits.sum()),
        wait_time=_time(rows, waits),
        collective_count=int(collectives.sum()),
        collective_time=_time(rows, collectives),
        collective_bytes=int(rows.size[collectives].sum()),
        peak_bytes=int(rows.allocated[peak]) if peak >= 0 else 0,
        peak_place=rows.place_at(peak) if peak >= 0 else NOWHERE,
        out_of_memory=tuple(
            OutOfMemory(rows.place_at(row), int(rows.size[row]), int(rows.allocated[row]))
            for row in np.flatnonzero(here & rows.of(Kind.OUT_OF_MEMORY))
        ),
        streams=len(np.unique(rows.stream[work])),
    )


def _time(rows: TraceArrays, group: Mask | Numbers) -> int:
    return int(rows.duration[group].sum())


def _kernels(rows: TraceArrays, kernels: Mask, rates: Rates | None) -> tuple[KernelGroup, ...]:
    groups = [
        KernelGroup(
            rows.names[name],
            group.size,
            *_sums(rows, group),
            float(rows.flops[group].sum()),
            int(rows.requested[group].sum()),
            int(rows.moved[group].sum()),
            int(rows.programs[group].max()),
            _peak_share(rows, group, rates),
        )
        for (name,), group in rows.groups(kernels, rows.name)
    ]
    return tuple(sorted(groups, key=lambda group: (-group.time, -group.count, group.name)))


def _peak_share(rows: TraceArrays, group: Numbers, rates: Rates | None) -> float:
    time, size_bytes = _sums(rows, group)
    if rates is None or not time or not rows.programs[group].any():
        return 0.0
    operations = float(rows.flops[group].sum()) / max(rates.float32, rates.tensor, 1.0)
    return min(1.0, max(operations, size_bytes / rates.bytes_per_s if rates.bytes_per_s else 0.0) / time * 1e9)


def _sums(rows: TraceArrays, group: Numbers) -> tuple[int, int]:
    return _time(rows, group), int(rows.size[group].sum())


def _copies(rows: TraceArrays, device: str) -> tuple[CopyGroup, ...]:
    number = rows.trace.devices[device]
    ours = rows.of(Kind.TRANSFER) & ((rows.source == number) | (rows.target == number))
    return tuple(
        CopyGroup(rows.devices[source], rows.devices[target], bool(asynchronous), group.size, *_sums(rows, group))
        for (source, target, asynchronous), group in rows.groups(ours, rows.source, rows.target, rows.asynchronous)
    )


def lines_of(rows: TraceArrays) -> tuple[LineSummary, ...]:
    """Return counts and times of each line, the longest first, in one pass over the rows."""
    host = rows.on_host()
    wanted = rows.of(*WORK, Kind.SYNCHRONISE) & (rows.place != 0)
    places, line_of = np.unique(rows.place[wanted], return_inverse=True)

    def count(mask: Mask) -> Any:
        return np.bincount(line_of[mask[wanted]], minlength=places.size).tolist()

    def add(values: Any, mask: Mask) -> Any:
        picked = mask[wanted]
        sums = np.zeros(places.size, dtype=np.int64)
        np.add.at(sums, line_of[picked], values[wanted][picked])
        return sums.tolist()

    kernels = rows.of(Kind.KERNEL, Kind.COLLECTIVE) & ~host
    copies, waits = rows.of(Kind.TRANSFER), rows.of(Kind.SYNCHRONISE)
    columns = [count(kernels), add(rows.duration, kernels), count(copies), add(rows.duration, copies)]
    columns += [add(rows.size, copies), count(waits), add(rows.duration, waits), count(host), add(rows.duration, host)]
    lines = [LineSummary(rows.place_of(place), *figures) for place, *figures in zip(places, *columns, strict=True)]
    return tuple(sorted(lines, key=lambda line: (-line.time, -line.kernel_count - line.waits, line.place)))


def _ranges(rows: TraceArrays) -> tuple[RangeSummary, ...]:
    ranges = [
        RangeSummary(rows.names[name], group.size, _time(rows, group))
        for (name,), group in rows.groups(rows.of(Kind.RANGE), rows.name)
    ]
    return tuple(sorted(ranges, key=lambda range: (-range.time, range.name)))

"""Traces for Chrome and Perfetto, of several processes in one file.

The format is the Trace Event Format (https://perfetto.dev/docs/getting-started/other-formats). It has a process for the
host and for each device, and a lane for each stream and each copy engine. Times are in microseconds.

The clocks of ranks agree, because collectives synchronize them (see the virtual GPU's collectives).
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from gpututor.trace.arrays import Intervals, Mask, Numbers, TraceArrays, common, merged
from gpututor.trace.columns import Trace, TraceError
from gpututor.trace.events import WORK, Kind
from gpututor.trace.hazards import hazard_of
from gpututor.trace.serialization import read_trace
from gpututor.trace.timeline import LAUNCH

MOST_ARROWS = 100_000
"""Maximum number of kernels and copies for launches and arrows: viewers cannot open larger files."""
_BATCH = 10_000


class TextFile(Protocol):
    """A file opened for text."""

    def write(self, text: str, /) -> object: ...


def write_timelines(traces: Sequence[tuple[str, Trace]], file: TextFile) -> None:
    """Write the traces of several processes, by name, for `chrome://tracing` and https://ui.perfetto.dev.

    Each process has a host and devices; a single process has the name "". Events without times are left out.
    """
    pieces = _events(traces)
    file.write('{"displayTimeUnit":"ms","traceEvents":[\n')
    separator = ""
    while batch := list(islice(pieces, _BATCH)):
        file.write(separator + ",\n".join(batch))
        separator = ",\n"
    file.write("\n]}\n")


def _events(traces: Sequence[tuple[str, Trace]]) -> Iterator[str]:
    first = 0
    for name, trace in traces:
        process = _Process(trace, name, first)
        yield from process.events()
        first = process.next_process


class _Process:
    """Lanes and events of one process."""

    def __init__(self, trace: Trace, name: str = "", first: int = 0) -> None:
        """`first` is the number of its host; the numbers of its devices follow."""
        self._rows = rows = TraceArrays(trace)
        self._name = f"{name} " if name else ""
        self._host_process = first
        self._names = [json.dumps(name) for name in rows.names]
        self._devices = rows.accelerators()
        numbers = {rows.trace.devices[name]: place for place, name in enumerate(self._devices, first + 1)}
        self._process = np.array([numbers.get(number, first) for number in range(len(rows.devices))])[rows.device]
        self._host = rows.on_host()
        self._work: Mask = rows.of(*WORK) & ~self._host & rows.timed
        self._arrows = int(self._work.sum()) <= MOST_ARROWS
        self.next_process = first + 1 + len(self._devices)

    def events(self) -> Iterator[str]:
        yield from self._lane_names()
        yield from self._on_devices()
        yield from self._on_the_host()
        yield from self._ranges()
        yield from self._memory()
        yield from self._moments()

    def _lane(self) -> Numbers:
        """Return the lane of each row on a device: even numbers for streams; 1, 3 and 5 for copy engines."""
        rows = self._rows
        engine = np.where(rows.from_host, 1, np.where(rows.to_host, 3, 5))
        streams = np.unique(rows.stream, return_inverse=True)[1] * 2 + 2
        lane: Numbers = np.where(rows.of(Kind.TRANSFER), engine, streams)
        return lane

    def _lane_names(self) -> Iterator[str]:
        rows = self._rows
        host = self._host_process
        yield _named("process", host, 0, f"{self._name}host")
        for process, device in enumerate(self._devices, host + 1):
            yield _named("process", process, 0, f"{self._name}{device}")
        engines = {1: "copies to the device", 3: "copies to the host", 5: "copies between devices"}
        lane = self._lane()
        for (process, number), group in rows.groups(self._work, self._process, lane):
            stream = int(rows.stream[group[0]])
            words = engines.get(number) or ("default stream" if stream == 0 else f"stream {stream}")
            if rows.kind[group[0]] == Kind.COLLECTIVE.number:
                words = "collectives" if stream else words
            yield _named("thread", process, number, words)

    def _on_devices(self) -> Iterator[str]:
        rows, lane = self._rows, self._lane()
        for row in np.flatnonzero(self._work):
            start, end = int(rows.start[row]), int(rows.end[row])
            where = f'"pid":{self._process[row]},"tid":{lane[row]}'
            yield self._slice(row, where, start, end)
            if self._arrows and rows.launched[row] >= 0:
                where += f',"id":{self._host_process << 32 | int(row)}'
                yield f'{{"ph":"f","bp":"e","name":"launch","cat":"launch",{where},"ts":{_us(start)}}}'

    def _slice(self, row: Any, where: str, start: int, end: int) -> str:
        rows = self._rows
        facts = [f'"bytes":{rows.size[row]}']
        if rows.flops[row]:
            facts.append(f'"flops":{rows.flops[row]}')
        if rows.asynchronous[row]:
            facts.append('"asynchronous":true')
        if rows.line[row]:
            facts.append(f'"place":{json.dumps(str(rows.place_at(row)))}')
        times = f'"ts":{_us(start)},"dur":{_us(end - start)}'
        return f'{{"ph":"X","name":{self._names[rows.name[row]]},{where},{times},"args":{{{",".join(facts)}}}}}'

    def _on_the_host(self) -> Iterator[str]:
        """Yield launches, waits and work on the CPU. Overlapping events, such as in several threads, get more lanes."""
        rows = self._rows
        launches = self._work & (rows.launched >= 0) if self._arrows else np.zeros_like(self._work)
        shown = np.flatnonzero(launches | (rows.timed & (self._host | rows.of(Kind.SYNCHRONISE))))
        end = np.where(launches, rows.launched, rows.end)[shown]
        begin = np.where(launches, np.maximum(rows.launched - LAUNCH, 0), rows.start)[shown]
        free: list[int] = []
        host = self._host_process
        for at in np.lexsort((begin, end)):
            row, start, stop = int(shown[at]), int(begin[at]), int(end[at])
            if launches[row] and free:
                start = min(max(start, free[0]), stop)
            lane = next((number for number, moment in enumerate(free) if moment <= start), len(free))
            if lane == len(free):
                free.append(0)
                yield _named("thread", self._host_process, lane, "host" if lane == 0 else f"host ({lane + 1})")
            free[lane] = stop
            where = f'"pid":{host},"tid":{lane}'
            yield self._slice(row, where, start, stop)
            if launches[row]:
                yield f'{{"ph":"s","name":"launch","cat":"launch",{where},"ts":{_us(start)},"id":{host << 32 | row}}}'

    def _ranges(self) -> Iterator[str]:
        rows = self._rows
        shown = np.flatnonzero(rows.of(Kind.RANGE) & rows.timed)
        if shown.size:
            yield _named("thread", self._host_process, 1000, "ranges")
        for row in shown:
            times = f'"ts":{_us(int(rows.start[row]))},"dur":{_us(int(rows.duration[row]))}'
            where = f'"pid":{self._host_process},"tid":1000'
            yield f'{{"ph":"X","name":{self._names[rows.name[row]]},{where},{times}}}'

    def _memory(self) -> Iterator[str]:
        rows = self._rows
        for row in np.flatnonzero(rows.of(Kind.ALLOCATE, Kind.FREE) & (rows.launched >= 0)):
            where = f'"pid":{self._process[row]},"ts":{_us(int(rows.launched[row]))}'
            yield f'{{"ph":"C","name":"allocated memory",{where},"args":{{"bytes":{rows.allocated[row]}}}}}'

    def _moments(self) -> Iterator[str]:
        """Yield hazards and out-of-memory events as marks in their process."""
        rows = self._rows
        for row in np.flatnonzero(rows.of(Kind.HAZARD, Kind.OUT_OF_MEMORY) & (rows.launched >= 0)):
            where = f'"pid":{self._process[row]},"tid":0,"ts":{_us(int(rows.launched[row]))}'
            hazard = rows.kind[row] == Kind.HAZARD.number
            words = hazard_of(rows, int(row)).sentence if hazard else str(rows.place_at(row))
            name = json.dumps(f"hazard: {rows.names[rows.name[row]]}" if hazard else "out of memory")
            yield f'{{"ph":"i","s":"p","name":{name},{where},"args":{{"words":{json.dumps(words)}}}}}'


def _named(what: str, process: int, lane: int, name: str) -> str:
    return f'{{"ph":"M","name":"{what}_name","pid":{process},"tid":{lane},"args":{{"name":{json.dumps(name)}}}}}'


def _us(nanoseconds: int) -> str:
    return f"{nanoseconds // 1000}.{nanoseconds % 1000:03}"


ENDING = ".trace"


def read_processes(names: Mapping[Path, str]) -> list[tuple[str, Trace]]:
    """Read the complete trace files, with the names of their processes; a killed process has written none."""
    traces = []
    for path, name in names.items():
        with contextlib.suppress(FileNotFoundError, TraceError):
            traces.append((name, read_trace(os.fspath(path))))
    return traces


def idle_in(trace: Trace, times: Sequence[tuple[int, int]]) -> int:
    """Return the nanoseconds in which no device of the trace worked, within the (begin, end) pairs of `times`."""
    rows = TraceArrays(trace)
    begin, end = np.array(sorted(times), dtype=np.int64).reshape(-1, 2).T
    whole = merged(Intervals(begin, end))
    return whole.total - common(whole, merged(rows.intervals(rows.on_devices())))

"""Writing down what the devices did, for whoever wants to look at it: `gpututor.grading.recording`."""

from __future__ import annotations

import itertools
import json
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from gpututor.checks.model import Call, Check, Machine, Run, Span, describe_call, tensors_by_path
from gpututor.grading.recording import (
    MOST_BYTES,
    BaselineRecording,
    CallRecording,
    LineCost,
    Recording,
    RunRecording,
    write_recording,
)
from gpututor.judge.timing.roofline import minimum_bytes, peak_of
from gpututor.protocol.values import ObservedTensor
from gpututor.text import truncate
from gpututor.trace.arrays import Place, TraceArrays
from gpututor.trace.columns import TYPES, Trace
from gpututor.trace.events import Kind
from gpututor.trace.hazards import hazards_of
from gpututor.trace.serialization import write_trace
from gpututor.trace.summary import lines_of

_EVENT_BYTES = 81
"""What an event takes in a file at most; see `gpututor.trace.columns.TYPES`."""
_MOST_HAZARDS = 20
"""At one line."""
_LONGEST_HAZARD = 300
"""Characters of the sentence."""
_MOST_LINES = 2000
"""What a person may have written has fewer; a trace may name any number."""


class RecordingWriter:
    """Writes the runs of one grading into a folder; with None it does nothing.

    Nothing that goes wrong here changes a verdict: it is told in the log, and the recording is not there.
    """

    def __init__(self, folder: str | None, checks: Sequence[Check], cases: int) -> None:
        self._folder = folder
        self._checks = checks
        self._cases = cases
        self._runs: list[RunRecording] = []
        self._left_bytes = MOST_BYTES
        self._left_out = 0

    def add(self, run: Run, device: str, file_name: str, stopped: Call | None = None) -> None:
        """One run, with its baselines. `file_name` is how the traces call the submission.

        `stopped` is the call that ended the run with an error, where its trace is known.
        """
        if self._folder is None:
            return
        try:
            Path(self._folder).mkdir(parents=True, exist_ok=True)
            self._runs.append(self._run(run, device, file_name, stopped))
            write_recording(Recording(tuple(self._runs), self._left_out_in_words()), self._folder)
        except Exception:  # the grading goes on
            traceback.print_exc()
            self._folder = None

    def _run(self, run: Run, device: str, file_name: str, stopped: Call | None) -> RunRecording:
        number = len(self._runs) + 1
        floors = [self._floor_ns(part, run.machine) for call in run.calls for part in call.ranks or (call,)]
        lines = _Lines(file_name)
        calls = self._calls(run.calls, floors, f"run{number}", lines)
        if stopped is not None and len(stopped.trace):
            words = describe_call(len(run.calls), self._cases, stopped.drawn)[2:-1] or "the call"
            told = self._call(
                _timed(stopped), f"{words}, which stopped with an error", 0, f"run{number}_stopped.trace", lines
            )
            calls += (replace(told, stopped=True),)
        baselines = tuple(
            BaselineRecording(name, self._calls(of_it, floors, f"run{number}_{place}", _Lines(name)))
            for place, (name, of_it) in enumerate(run.baselines.items(), 1)
        )
        times: Literal["", "modelled", "measured"] = "modelled" if run.machine.virtual else "measured"
        timed = any(call.elapsed_ns for call in calls)
        scenario, memory_bytes = run.machine.scenario.name, run.machine.memory_bytes or 0
        return RunRecording(scenario, device, times if timed else "", calls, baselines, lines.costs(), memory_bytes)

    def _calls(
        self, calls: Sequence[Call], floors: Sequence[int], prefix: str, lines: _Lines
    ) -> tuple[CallRecording, ...]:
        made: list[CallRecording] = []
        for place, call in enumerate(calls):
            words = describe_call(place, self._cases, call.drawn)[2:-1] or f"call {place + 1}"
            for rank, part in enumerate(call.ranks or (call,)):
                floor_ns = floors[len(made)] if len(made) < len(floors) else 0
                told = f"{words}, rank {rank}" if call.ranks else words
                made.append(self._call(part, told, floor_ns, f"{prefix}_{len(made) + 1}.trace", lines))
        return tuple(made)

    def _call(self, call: Call, words: str, floor_ns: int, name: str, lines: _Lines) -> CallRecording:
        rows = TraceArrays(call.trace)
        peak_bytes, peak_place = _peak(call, rows)
        lines.add(rows)
        events = len(rows.kind)
        kept = self._write(call.trace, events, name)
        span = call.span
        return CallRecording(
            words=words,
            trace=name if kept or not events else "",
            elapsed_ns=span.finished - span.started,
            # A result that was not written, such as a view of an argument, may take less: then nothing is known.
            floor_ns=floor_ns if floor_ns <= span.finished - span.started else 0,
            peak_bytes=peak_bytes,
            peak_line=peak_place.line if peak_place is not None and lines.are_of(peak_place) else None,
            events=events,
            dropped=call.trace.dropped + events - kept,
        )

    def _write(self, trace: Trace, events: int, name: str) -> int:
        """Write the trace, or as much of its beginning as there is room for; how many events that were."""
        assert self._folder is not None
        kept = max(0, min(events, (self._left_bytes - _tables_bytes(trace)) // _EVENT_BYTES))
        self._left_out += events - kept
        if events and not kept:
            return 0
        if kept < events:
            columns = {column: values[:kept] for column, values in trace.columns().items()}
            assert columns.keys() == TYPES.keys()
            trace = Trace.of(columns, trace, trace.dropped + events - kept, None)
        path = Path(self._folder) / name
        write_trace(trace, str(path))
        self._left_bytes -= path.stat().st_size
        return kept

    def _floor_ns(self, call: Call, machine: Machine) -> int:
        """The least time for the call on this device: of the author's figures, else to write its result once."""
        if machine.device == "cpu":
            return 0
        peak, made = peak_of(machine), _made(call)
        limits = [check.speed for check in self._checks if check.speed is not None and check.applies(machine)]
        seconds = [peak.least_s(limit, call.drawn, made) for limit in limits]
        return int(1e9 * max([sum(map(minimum_bytes, made)) / peak.bytes_per_s, *seconds]))

    def _left_out_in_words(self) -> str:
        if not self._left_out:
            return ""
        return f"{self._left_out:,} events are not in the traces: one recording holds {MOST_BYTES >> 20} MiB."


def _timed(stopped: Call) -> Call:
    """A call that did not return, with a span from the first to the last thing that its devices did."""
    rows = TraceArrays(stopped.trace)
    return replace(stopped, span=Span(rows.begin, rows.finish, rows.finish))


class _Lines:
    """What each line of one file costs, added up over calls."""

    def __init__(self, file_name: str) -> None:
        self._file_name = file_name
        self._figures: dict[int, Counter[str]] = {}
        self._hazards: dict[int, dict[str, None]] = {}

    def are_of(self, place: Place) -> bool:
        """Whether it is a line of the file."""
        return place.line is not None and Path(place.file).name == self._file_name

    def add(self, rows: TraceArrays) -> None:
        for one in lines_of(rows):
            if self.are_of(one.place):
                self._count(one.place).update(
                    kernels=one.kernel_count,
                    kernel_ns=one.kernel_time,
                    copies=one.copy_count,
                    copy_ns=one.copy_time,
                    copied_bytes=one.copy_bytes,
                    waits=one.waits,
                    wait_ns=one.wait_time,
                )
        for (place,), group in rows.groups(rows.of(Kind.ALLOCATE) & (rows.place != 0), rows.place):
            if self.are_of(rows.place_of(place)):
                self._count(rows.place_of(place)).update(allocated_bytes=int(rows.size[group].sum()))
        for hazard in hazards_of(rows):
            for where in (hazard.place, hazard.earlier):
                if self.are_of(where):
                    self._count(where)
                    self._hazards.setdefault(where.line or 0, {})[hazard.sentence] = None

    def _count(self, place: Place) -> Counter[str]:
        return self._figures.setdefault(place.line or 0, Counter())

    def costs(self) -> tuple[LineCost, ...]:
        """By line; a line that only ran operators on the CPU is not among them."""
        costly = [line for line in self._figures if line in self._hazards or any(self._figures[line].values())]
        return tuple(
            LineCost(line=line, hazards=self._hazards_at(line), **_amounts(self._figures[line]))
            for line in sorted(costly)[:_MOST_LINES]
        )

    def _hazards_at(self, line: int) -> tuple[str, ...]:
        found = itertools.islice(self._hazards.get(line, ()), _MOST_HAZARDS)
        return tuple(truncate(sentence, _LONGEST_HAZARD) for sentence in found)


def _tables_bytes(trace: Trace) -> int:
    """What names, devices and files take in a trace's file: a submission may give everything a name of its own."""
    return sum(len(json.dumps(table.texts())) for table in (trace.names, trace.devices, trace.files))


def _amounts(figures: Counter[str]) -> dict[str, Any]:
    return {one.name: figures[one.name] for one in fields(LineCost) if one.name not in ("line", "hazards")}


def _made(call: Call) -> list[ObservedTensor]:
    """The tensors of the result that lie on a device and had to be written: no arguments, and none twice."""
    seen = {fact.storage for fact in call.arguments.values()}
    found = []
    for tensor in tensors_by_path(call.output).values():
        if tensor.fact.device != "cpu" and tensor.fact.storage not in seen:
            seen.add(tensor.fact.storage)
            found.append(tensor)
    return found


def _peak(call: Call, rows: TraceArrays) -> tuple[int, Place | None]:
    """The most that was held on one device, and the place that reached it, where the trace knows."""
    peak_bytes = max((use.peak for use in call.memory.values()), default=0)
    memory = np.flatnonzero(rows.of(Kind.ALLOCATE))
    if not memory.size:
        return peak_bytes, None
    row = int(memory[np.argmax(rows.allocated[memory])])
    traced = int(rows.allocated[row])
    return max(traced, peak_bytes), rows.place_of(int(rows.place[row])) if traced >= peak_bytes else None

"""Writes recordings: what the devices did in a grading, see `gpututor.grading.recording`."""

from __future__ import annotations

import itertools
import json
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Literal

import numpy as np

from gpututor.checks.model import Call, Check, Machine, Run, Span, describe_call
from gpututor.checks.trees import tensors_by_path
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
from gpututor.trace.columns import Trace
from gpututor.trace.events import Kind
from gpututor.trace.hazards import hazards_of
from gpututor.trace.serialization import write_trace
from gpututor.trace.summary import lines_of

_EVENT_BYTES = 81
"""Bytes of an event in a file at most; see `gpututor.trace.columns.TYPES`."""
_MOST_HAZARDS = 20
"""Hazards at one line."""
_LONGEST_HAZARD = 300
"""Characters of a sentence."""
_MOST_LINES = 2000
"""Lines with costs: a person writes fewer, but a trace may name any number."""


class RecordingWriter:
    """Writer of a grading's runs into a folder, if there is one. Errors are logged, and never change a verdict."""

    def __init__(self, folder: str | None, checks: Sequence[Check], cases: int) -> None:
        self._folder, self._checks, self._cases = folder, checks, cases
        self._runs: list[RunRecording] = []
        self._left_bytes = MOST_BYTES
        self._left_out = 0

    def add(self, run: Run, device: str, file_name: str, stopped: Call | None = None) -> None:
        """Record a run. `file_name`: the submission's name in traces. `stopped`: a call that ended with an error."""
        if self._folder is None:
            return
        try:
            Path(self._folder).mkdir(parents=True, exist_ok=True)
            self._runs.append(self._run(run, device, file_name, stopped))
            left_out = f"{self._left_out:,} events are not in the traces: one recording holds {MOST_BYTES >> 20} MiB."
            write_recording(Recording(tuple(self._runs), left_out if self._left_out else ""), self._folder)
        except Exception:  # the log has the error; the grading continues without a recording
            traceback.print_exc()
            self._folder = None

    def _run(self, run: Run, device: str, file_name: str, stopped: Call | None) -> RunRecording:
        number = len(self._runs) + 1
        floors = [self._floor_ns(part, run.machine) for call in run.calls for part in call.ranks or (call,)]
        lines = _Lines(file_name)
        calls = self._calls(run.calls, floors, f"run{number}", lines)
        if stopped is not None and len(stopped.trace):
            rows = TraceArrays(stopped.trace)
            # The call did not return, so its span covers everything that its devices did.
            call = replace(stopped, span=Span(rows.begin, rows.finish, rows.finish))
            words = describe_call(len(run.calls), self._cases, stopped.drawn)[2:-1] or "the call"
            words = f"{words}, which stopped with an error"
            calls += (replace(self._call(call, words, 0, f"run{number}_stopped.trace", lines), stopped=True),)
        baselines = tuple(
            BaselineRecording(name, self._calls(baseline_calls, floors, f"run{number}_{place}", _Lines(name)))
            for place, (name, baseline_calls) in enumerate(run.baselines.items(), 1)
        )
        times: Literal["", "modelled", "measured"] = ""
        if any(call.elapsed_ns for call in calls):
            times = "modelled" if run.machine.virtual else "measured"
        scenario, memory_bytes = run.machine.scenario.name, run.machine.memory_bytes or 0
        return RunRecording(scenario, device, times, calls, baselines, lines.costs(), memory_bytes)

    def _calls(
        self, calls: Sequence[Call], floors: Sequence[int], prefix: str, lines: _Lines
    ) -> tuple[CallRecording, ...]:
        recordings: list[CallRecording] = []
        for place, call in enumerate(calls):
            words = describe_call(place, self._cases, call.drawn)[2:-1] or f"call {place + 1}"
            for rank, part in enumerate(call.ranks or (call,)):
                floor_ns = floors[len(recordings)] if len(recordings) < len(floors) else 0
                label = f"{words}, rank {rank}" if call.ranks else words
                recordings.append(self._call(part, label, floor_ns, f"{prefix}_{len(recordings) + 1}.trace", lines))
        return tuple(recordings)

    def _call(self, call: Call, words: str, floor_ns: int, name: str, lines: _Lines) -> CallRecording:
        rows = TraceArrays(call.trace)
        peak_bytes, peak_place = _peak(call, rows)
        lines.add(rows)
        events = len(rows.kind)
        written = self._write(call.trace, events, name)
        span = call.span
        return CallRecording(
            words=words,
            trace=name if written or not events else "",
            elapsed_ns=span.finished - span.started,
            # A call whose result was not written, such as a view of an argument, may be faster than its floor.
            floor_ns=floor_ns if floor_ns <= span.finished - span.started else 0,
            peak_bytes=peak_bytes,
            peak_line=peak_place.line if peak_place is not None and lines.contains(peak_place) else None,
            events=events,
            dropped=call.trace.dropped + events - written,
        )

    def _write(self, trace: Trace, events: int, name: str) -> int:
        """Write the trace, or as much of its beginning as still fits; return the number of events."""
        assert self._folder is not None
        # Names take space too: a submission may give each event another name.
        names_bytes = sum(len(json.dumps(table.texts())) for table in (trace.names, trace.devices, trace.files))
        written = max(0, min(events, (self._left_bytes - names_bytes) // _EVENT_BYTES))
        self._left_out += events - written
        if events and not written:
            return 0
        if written < events:
            columns = {column: values[:written] for column, values in trace.columns().items()}
            trace = Trace.of(columns, trace, trace.dropped + events - written, None)
        path = Path(self._folder) / name
        write_trace(trace, str(path))
        self._left_bytes -= path.stat().st_size
        return written

    def _floor_ns(self, call: Call, machine: Machine) -> int:
        """Return the least time of the call on this device, by the author's figures or for writing its result once."""
        if machine.device == "cpu":
            return 0
        peak, tensors = peak_of(machine), _written_tensors(call)
        limits = [check.speed for check in self._checks if check.speed is not None and check.applies(machine)]
        seconds = [peak.least_s(limit, call.drawn, tensors) for limit in limits]
        return int(1e9 * max([sum(map(minimum_bytes, tensors)) / peak.bytes_per_s, *seconds]))


class _Lines:
    """Costs of each line of one file, summed over calls."""

    def __init__(self, file_name: str) -> None:
        self._file_name = file_name
        self._figures: dict[int, Counter[str]] = {}
        self._hazards: dict[int, dict[str, None]] = {}

    def contains(self, place: Place) -> bool:
        """Return True if `place` is a line of the file."""
        return place.line is not None and Path(place.file).name == self._file_name

    def add(self, rows: TraceArrays) -> None:
        for cost in lines_of(rows):
            if self.contains(cost.place):
                self._count(cost.place).update(
                    kernels=cost.kernel_count,
                    kernel_ns=cost.kernel_time,
                    copies=cost.copy_count,
                    copy_ns=cost.copy_time,
                    copied_bytes=cost.copy_bytes,
                    waits=cost.waits,
                    wait_ns=cost.wait_time,
                )
        for (number,), group in rows.groups(rows.of(Kind.ALLOCATE) & (rows.place != 0), rows.place):
            if self.contains(rows.place_of(number)):
                self._count(rows.place_of(number)).update(allocated_bytes=int(rows.size[group].sum()))
        for hazard in hazards_of(rows):
            for place in (hazard.place, hazard.earlier):
                if self.contains(place):
                    self._count(place)
                    self._hazards.setdefault(place.line or 0, {})[hazard.sentence] = None

    def _count(self, place: Place) -> Counter[str]:
        return self._figures.setdefault(place.line or 0, Counter())

    def costs(self) -> tuple[LineCost, ...]:
        """Return the costs by line, without lines that only ran operators on the CPU."""
        costly = [line for line in self._figures if line in self._hazards or any(self._figures[line].values())]
        return tuple(map(self._cost_of, sorted(costly)[:_MOST_LINES]))

    def _cost_of(self, line: int) -> LineCost:
        names = [field.name for field in fields(LineCost) if field.name not in ("line", "hazards")]
        sentences = itertools.islice(self._hazards.get(line, ()), _MOST_HAZARDS)
        hazards = tuple(truncate(sentence, _LONGEST_HAZARD) for sentence in sentences)
        return LineCost(line=line, hazards=hazards, **{name: self._figures[line][name] for name in names})


def _written_tensors(call: Call) -> list[ObservedTensor]:
    """Return the tensors of the result that had to be written on a device: no arguments, and none twice."""
    seen = {fact.storage for fact in call.arguments.values()}
    tensors = []
    for tensor in tensors_by_path(call.output).values():
        if tensor.fact.device != "cpu" and tensor.fact.storage not in seen:
            seen.add(tensor.fact.storage)
            tensors.append(tensor)
    return tensors


def _peak(call: Call, rows: TraceArrays) -> tuple[int, Place | None]:
    """Return the most memory held on one device, and the place that reached it if the trace knows."""
    peak_bytes = max((use.peak for use in call.memory.values()), default=0)
    memory = np.flatnonzero(rows.of(Kind.ALLOCATE))
    if not memory.size:
        return peak_bytes, None
    row = int(memory[np.argmax(rows.allocated[memory])])
    traced = int(rows.allocated[row])
    return max(traced, peak_bytes), rows.place_at(row) if traced >= peak_bytes else None

"""The model of the trace view: calls, figures and places of a recorded run.

Reading a long trace would delay keys, so a thread reads it and makes this model.

A tab is a widget with a method `show(view: RunView) -> None`. The screen may call it while `view.loaded` is still
None, and calls it again once the traces have been read. A tab that wants the learner to see a line of the attempt's
file posts `LineChosen`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from gpututor.grading.recording import CallRecording, Recording, RunRecording
from gpututor.grading.report import Verdict
from gpututor.text import escape_control_chars

if TYPE_CHECKING:
    from gpututor.trace.advice_rules import Advice, Rates
    from gpututor.trace.arrays import Place, TimeShares, TraceArrays
    from gpututor.trace.hazards import HazardGroup
    from gpututor.trace.memory import MemoryTimeline
    from gpututor.trace.timeline import TimelineLayout


_RANK = re.compile(r", rank (\d+)$")
_MOST_ADVICE = 5
_MODEL = re.compile(r"virtual (.+)$")


@dataclass(frozen=True)
class RecordedCall:
    """A call of the learner's function, in all its processes."""

    words: str
    """`call 2 of 3, with x of shape (7, 1)`."""
    calls: tuple[CallRecording, ...]
    """A call for each process."""

    @property
    def work_ns(self) -> int:
        return max(call.elapsed_ns for call in self.calls)

    @property
    def interest(self) -> tuple[bool, int, int]:
        """Sort key for the call to show first: a stopped call, else the longest, else the call with most events."""
        return any(call.stopped for call in self.calls), self.work_ns, sum(call.events for call in self.calls)


@dataclass(frozen=True)
class ProcessRows:
    """The trace of one process as arrays."""

    name: str
    """`rank 1`; empty if there is only one process."""
    call: CallRecording
    rows: TraceArrays


@dataclass(frozen=True)
class ProcessFigures:
    """Memory, shares of time, hazards and advice of one process's trace."""

    name: str
    """`rank 1`; empty if there is only one process."""
    curves: tuple[MemoryTimeline, ...]
    shares: tuple[TimeShares, ...]
    hazards: tuple[HazardGroup, ...]
    advice: tuple[Advice, ...]
    """Advice without hazards and failed allocations, which are listed separately."""
    timed: bool


@dataclass(frozen=True)
class LoadedCall:
    """The traces of a case."""

    processes: tuple[ProcessRows, ...]
    """Traces that could be read; there may be none."""
    missing: tuple[str, ...]
    """A sentence for each trace that could not be read."""
    device: str = ""
    """Name of the run's device."""

    @property
    def used_a_device(self) -> bool:
        """True if any device except the CPU did something."""
        return any(process.rows.accelerators() for process in self.processes)

    @cached_property
    def picture(self) -> TimelineLayout:
        """The timeline of all processes; `load` computes it."""
        from gpututor.trace.timeline import TimelineLayout

        return TimelineLayout([(process.name, process.rows) for process in self.processes])

    @cached_property
    def figures(self) -> tuple[ProcessFigures, ...]:
        """Figures of each process; `load` computes them."""
        return tuple(_figures_of(process, self.device) for process in self.processes)


@dataclass(frozen=True)
class OtherRun:
    """Another attempt, or a baseline, to compare an attempt with."""

    words: str
    """`best, attempt 3`; `baseline.py`."""
    short: str
    """`attempt 3`"""
    view: RunView
    is_baseline: bool = False
    """True for the author's file: its lines are not shown."""

    @property
    def is_best_or_before(self) -> bool:
        """True for the best attempt and the previous attempt: their `words` say so."""
        return self.words != self.short and not self.is_baseline


@dataclass(frozen=True)
class RunView:
    """A case of a run of an attempt."""

    recording: Recording
    run_number: int
    """The position of the run in the recording, from 0."""
    case_number: int
    """The position of the case in the run, from 0."""
    attempt: int
    """The number of the attempt at the exercise, from 1."""
    title: str
    """The exercise's label and title."""
    file_name: str
    """Name of the file in the learner's folder."""
    source: str | None
    """The graded text; None if it was not stored."""
    loaded: LoadedCall | None = None
    """None until the traces have been read."""
    others: tuple[OtherRun, ...] = ()
    """Attempts to compare its times with."""
    verdicts: tuple[Verdict, ...] = ()
    outcome: str = ""
    """`✗ Failed: 11 of 12 checks passed`; empty for a file that was not graded."""
    seed: int | None = None
    """The seed of its inputs; None for a file that was not graded."""

    @property
    def run(self) -> RunRecording:
        return self.recording.runs[self.run_number]

    @property
    def case(self) -> RecordedCall:
        return cases_of(self.run)[self.case_number]

    @property
    def cases(self) -> tuple[RecordedCall, ...]:
        return cases_of(self.run)

    def source_line(self, line: int | None) -> str:
        """Return a line of the attempt, from 1; empty if it is not known."""
        lines = self.source_lines
        return lines[line - 1] if line is not None and 0 < line <= len(lines) else ""

    @property
    def source_lines(self) -> list[str]:
        return (self.source or "").split("\n")

    def of_run(self, number: int) -> RunView:
        """Return the view of another run, at its most interesting case; numbers wrap around."""
        number %= len(self.recording.runs)
        cases = cases_of(self.recording.runs[number])
        traced = [at for at, case in enumerate(cases) if any(call.trace for call in case.calls)]
        case_number = max(traced, key=lambda at: cases[at].interest, default=0)
        return replace(self, run_number=number, case_number=case_number, loaded=None)

    def of_case(self, number: int) -> RunView:
        """Return the view of another case of the run; numbers wrap around."""
        return replace(self, case_number=number % len(self.cases), loaded=None)

    def next_run(self, by: int) -> RunView:
        """Return the view of the run `by` further on; the same view if there is only one run."""
        return self.of_run(self.run_number + by) if "scenario" not in self.unavailable_commands else self

    def next_case(self, by: int) -> RunView:
        """Return the view of the case `by` further on; the same view if there is only one case."""
        return self.of_case(self.case_number + by) if "case" not in self.unavailable_commands else self

    def at_failure(self) -> RunView:
        """Return the view of the case that the first failed check names; this view if none names a case."""
        for verdict in self.verdicts:
            for number, run in enumerate(self.recording.runs):
                if verdict.status.is_failure and verdict.scenario == run.scenario:
                    for position, case in enumerate(cases_of(run)):
                        if f"({case.words})" in f"{verdict.expected} {verdict.got}":
                            return replace(self, run_number=number, case_number=position, loaded=None)
        return self

    @property
    def unavailable_commands(self) -> list[str]:
        """Commands that do nothing, because there is no other case or scenario."""
        choices = {"case": self.cases, "scenario": self.recording.runs}
        return [name for name, values in choices.items() if len(values) < 2]


def cases_of(run: RunRecording) -> tuple[RecordedCall, ...]:
    """Group the calls of a run: each case has the calls that its processes made together."""
    cases: dict[str, list[CallRecording]] = {}
    for call in run.calls:
        cases.setdefault(_RANK.sub("", call.words, count=1), []).append(call)
    return tuple(RecordedCall(words, tuple(calls)) for words, calls in cases.items())


def first_view(recording: Recording, *, attempt: int, title: str, file_name: str, source: str | None) -> RunView | None:
    """Return a view of the most interesting case of all runs; None if no run made a call."""
    start = RunView(recording, 0, 0, attempt, title, file_name, source)
    views = [start.of_run(number) for number, run in enumerate(recording.runs) if run.calls]
    return max(views, key=lambda view: view.case.interest, default=None)


def load(view: RunView) -> RunView:
    """Return the view with its traces. Reads files and imports NumPy (80 ms): for a thread. Raises nothing."""
    processes, missing = [], []
    for call in view.case.calls:
        path = view.recording.trace_path(call)
        if path is None:
            missing.append(f"The trace of {call.words} was left out: {view.recording.left_out or 'it is not there.'}")
            continue
        try:
            processes.append(_read(call, path))
        except FileNotFoundError:
            missing.append(f"The trace of {call.words} is no longer on this disk.")
        except Exception as error:  # a file can be damaged in any way
            missing.append(f"The trace of {call.words} cannot be read: {error}")
    loaded = LoadedCall(tuple(processes), tuple(missing), view.run.device)
    try:
        loaded.picture, loaded.figures  # noqa: B018 - slow properties, cached in this thread
    except Exception as error:
        from gpututor.app.runtime import write_log

        write_log(error)
        loaded = LoadedCall((), (*missing, f"What was recorded cannot be shown: {error!r}"), view.run.device)
    return replace(view, loaded=loaded)


def _read(call: CallRecording, path: Path) -> ProcessRows:
    from gpututor.trace.arrays import TraceArrays
    from gpututor.trace.serialization import read_trace

    rank = _RANK.search(call.words)
    return ProcessRows(f"rank {rank[1]}" if rank else "", call, TraceArrays(read_trace(str(path))))


def _figures_of(process: ProcessRows, device: str) -> ProcessFigures:
    """Compute the figures of a trace; `device` is the name of the run's device."""
    from gpututor.trace.advice import collect_advice
    from gpututor.trace.arrays import time_shares
    from gpututor.trace.hazards import hazards_of
    from gpututor.trace.memory import memory_curves

    rows, rates = process.rows, _rates(device)
    by_device = dict.fromkeys(rows.accelerators(), rates) if rates is not None else {}
    advice = [item for item in collect_advice(rows, (), by_device, None) if item.rule != "out of memory"]
    curves = memory_curves(rows)
    for curve in curves:
        curve.held(curve.peak.number)  # the first call computes all lifetimes
    shares = time_shares(rows, process.call.elapsed_ns)
    timed = bool(rows.timed.any())
    return ProcessFigures(process.name, curves, shares, hazards_of(rows), tuple(advice[:_MOST_ADVICE]), timed)


def _rates(device: str) -> Rates | None:
    """Return the rates of a virtual GPU by its description, such as `cuda:0, virtual T4`; None for a real device."""
    from gpututor.hardware.gpus import gpu_specs
    from gpututor.trace.advice_rules import Rates

    spec = gpu_specs().get(model_of(device))
    return Rates(spec.float32_flops, spec.tf32_flops, spec.bytes_per_s) if spec else None


def model_of(device: str) -> str:
    """Return the model of a virtual GPU by its description, such as `cuda:0, virtual T4`; empty for other devices."""
    match = _MODEL.search(device)
    return match[1] if match else ""


def line_of(place: Place, file_name: str) -> int | None:
    """Return the line if the place is in the learner's file; else None."""
    return place.line if re.split(r"[/\\]", place.file)[-1] == file_name else None


def place_words(place: Place, file_name: str) -> str:
    """`line 14`; `given.py:3` for another file; `no line of yours`."""
    if place.line is None:
        return "no line of yours"
    return f"line {place.line}" if line_of(place, file_name) is not None else escape_control_chars(str(place))


def code_at(view: RunView, place: Place) -> str:
    """Return the text of the line without its indent; empty if it is not known."""
    return code(view.source_line(line_of(place, view.file_name)).strip())


def code(line: str) -> str:
    """Return a line of code, safe to show."""
    return escape_control_chars(line.expandtabs(4))

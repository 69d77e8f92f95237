"""The model of the trace view: calls, figures and places of a recorded run.

Reading a long trace takes longer than a key may take to act, so this is made in the thread that loads the traces.

A tab is a widget with a method `show(view: RunView) -> None`. It is called with the figures at once, while
`view.loaded` is still None, and once more when the traces have been read. A tab that wants the learner to see a line
of the attempt's file posts `LineChosen`; the device screen does the rest.
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
    from gpututor.app.trace_view.figures import ProcessFigures
    from gpututor.trace.arrays import Place, TraceArrays
    from gpututor.trace.timeline import TimelineLayout


_RANK = re.compile(r", rank (\d+)$")


@dataclass(frozen=True)
class RecordedCall:
    """One call of the learner's function, in all the processes that took part in it."""

    words: str
    """`call 2 of 3, with x of shape (7, 1)`."""
    calls: tuple[CallRecording, ...]
    """One for each process: most often one."""

    @property
    def work_ns(self) -> int:
        return max(call.elapsed_ns for call in self.calls)

    @property
    def events(self) -> int:
        return sum(call.events for call in self.calls)

    @property
    def worth(self) -> tuple[bool, int, int]:
        """How much there is to see: the call that stopped first, then what took longest, or has most events."""
        return any(call.stopped for call in self.calls), self.work_ns, self.events


@dataclass(frozen=True)
class ProcessRows:
    """The trace of one process, for arithmetic."""

    name: str
    """Such as `rank 1`; empty where there is only one."""
    call: CallRecording
    rows: TraceArrays


@dataclass(frozen=True)
class LoadedCall:
    """The traces of a case."""

    processes: tuple[ProcessRows, ...]
    """Those whose trace could be read; there may be none."""
    missing: tuple[str, ...]
    """A sentence for each that could not."""
    device: str = ""
    """What the run's device is called."""

    @property
    def used_a_device(self) -> bool:
        """Whether anything beside the CPU did something."""
        return any(process.rows.accelerators() for process in self.processes)

    @cached_property
    def picture(self) -> TimelineLayout:
        """The timeline of all processes; `load` has made it already."""
        from gpututor.trace.timeline import TimelineLayout

        return TimelineLayout([(process.name, process.rows) for process in self.processes])

    @cached_property
    def figures(self) -> tuple[ProcessFigures, ...]:
        """Memory, shares of time, hazards and advice of each process; `load` has made them already."""

        from gpututor.app.trace_view.figures import figures_of

        return tuple(figures_of(one.name, one.rows, one.call.elapsed_ns, self.device) for one in self.processes)


@dataclass(frozen=True)
class OtherAttempt:
    """Another attempt at the same exercise."""

    words: str
    """`best, attempt 3`"""
    recording: Recording


@dataclass(frozen=True)
class RunView:
    """One case of one run of an attempt."""

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
    """How the learner knows the file."""
    source: str | None
    """The text that was graded; None where it was not kept."""
    loaded: LoadedCall | None = None
    """None until the traces have been read."""
    others: tuple[OtherAttempt, ...] = ()
    """Attempts to set its times beside."""
    verdicts: tuple[Verdict, ...] = ()
    """What the checks said of this attempt."""
    outcome: str = ""
    """`✗ Failed: 11 of 12 checks passed`; empty for a file that was not graded."""

    @property
    def run(self) -> RunRecording:
        return self.recording.runs[self.run_number]

    @property
    def case(self) -> RecordedCall:
        return cases_of(self.run)[self.case_number]

    @property
    def call(self) -> CallRecording:
        """The first process's call."""
        return self.case.calls[0]

    @property
    def is_modelled(self) -> bool:
        return self.run.times == "modelled"

    @property
    def times_words(self) -> str:
        """`modelled`, `measured`, or that there are no times."""
        return self.run.times or "without times"

    @property
    def cases(self) -> tuple[RecordedCall, ...]:
        return cases_of(self.run)

    def source_line(self, line: int | None) -> str:
        """The text of a line of the attempt, from 1; empty where that is not known."""
        lines = self.source_lines
        return lines[line - 1] if line is not None and 0 < line <= len(lines) else ""

    @property
    def source_lines(self) -> list[str]:
        return (self.source or "").split("\n")

    def of_run(self, number: int) -> RunView:
        """Another run, at the case that shows most; round and round."""
        number %= len(self.recording.runs)
        case = most_work(self.recording.runs[number])
        return replace(self, run_number=number, case_number=case, loaded=None)

    def of_case(self, number: int) -> RunView:
        """Another case of the run; round and round."""
        return replace(self, case_number=number % len(self.cases), loaded=None)

    def with_traces(self, loaded: LoadedCall) -> RunView:
        return replace(self, loaded=loaded)


def cases_of(run: RunRecording) -> tuple[RecordedCall, ...]:
    """The calls of a run; those of several processes that are one call stand together."""
    found: dict[str, list[CallRecording]] = {}
    for call in run.calls:
        found.setdefault(_RANK.sub("", call.words, count=1), []).append(call)
    return tuple(RecordedCall(words, tuple(calls)) for words, calls in found.items())


def most_work(run: RunRecording) -> int:
    """The position of the case that shows most; see `RecordedCall.worth`."""
    cases = cases_of(run)
    shown = [number for number, case in enumerate(cases) if any(call.trace for call in case.calls)]
    return max(shown, key=lambda number: cases[number].worth, default=0)


def first_view(recording: Recording, *, attempt: int, title: str, file_name: str, source: str | None) -> RunView | None:
    """Where to begin: the case of all runs that shows most. None where nothing ran."""
    runs = [number for number, run in enumerate(recording.runs) if run.calls]
    if not runs:
        return None
    views = [RunView(recording, number, 0, attempt, title, file_name, source).of_run(number) for number in runs]
    return max(views, key=lambda view: view.case.worth)


def load(view: RunView) -> RunView:
    """The same with its traces. Reads files and imports NumPy (80 ms): to be called in a thread. Raises nothing."""
    processes, missing = [], []
    for call in view.case.calls:
        path = view.recording.trace_path(call)
        if path is None:
            missing.append(f"The trace of {call.words} was left out: {view.recording.left_out or 'it is not there.'}")
            continue
        try:
            processes.append(_read(call, path))
        except FileNotFoundError:
            missing.append(f"The trace of {call.words} is not on this disk any more.")
        except Exception as error:  # a damaged file, in whatever way
            missing.append(f"The trace of {call.words} cannot be read: {error}")
    try:
        return view.with_traces(_prepared(LoadedCall(tuple(processes), tuple(missing), view.run.device)))
    except Exception as error:
        from gpututor.app.runtime import write_log

        write_log(error)
        words = f"What was recorded cannot be shown: {error!r}"
        return view.with_traces(_prepared(LoadedCall((), (*missing, words), view.run.device)))


def _read(call: CallRecording, path: Path) -> ProcessRows:
    from gpututor.trace.arrays import TraceArrays
    from gpututor.trace.serialization import read_trace

    rank = _RANK.search(call.words)
    rows = TraceArrays(read_trace(str(path)))
    rows.check()
    return ProcessRows(f"rank {rank[1]}" if rank else "", call, rows)


def _prepared(loaded: LoadedCall) -> LoadedCall:
    """The same, with what takes long made now and not in a handler."""
    loaded.picture, loaded.figures  # noqa: B018 - they are kept
    return loaded


def is_of(place: Place, file_name: str) -> bool:
    """Whether it is a line of the learner's file."""
    return place.line is not None and re.split(r"[/\\]", place.file)[-1] == file_name


def line_of(place: Place, file_name: str) -> int | None:
    """The line of the learner's file; None where it is none of its lines."""
    return place.line if is_of(place, file_name) else None


def place_words(place: Place, file_name: str) -> str:
    """`line 14`; `given.py:3` for another file; `no line of yours`."""
    if place.line is None:
        return "no line of yours"
    return f"line {place.line}" if is_of(place, file_name) else escape_control_chars(str(place))


def code_at(view: RunView, place: Place) -> str:
    """The text of the line, without its indent; empty where it is not known."""
    return code(view.source_line(line_of(place, view.file_name)).strip())


def code(line: str) -> str:
    """A line of somebody's program, safe to show."""
    return escape_control_chars(line.expandtabs(4))

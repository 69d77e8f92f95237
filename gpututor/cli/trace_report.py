"""Text and JSON of the reports that `gpututor trace` collects."""

from __future__ import annotations

import json
import signal
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpututor.text import escape_control_chars
from gpututor.trace.formatting import duration, share, size

if TYPE_CHECKING:
    from gpututor.trace.text import Candidate


FIRST = "program.json"
"""Report of the program's own process; see `gpututor.devices.process_report`, which is never imported here."""
WIDTH = 80
MOST_OF_AN_ERROR = 150
MOST_PROCESSES = 16
_ON_ALREADY = "The script enters `virtual_gpu()` itself: remove that block, or run the script with plain `python`."
_WORKERS = "Work of DataLoader workers, and of other processes without a GPU, costs nothing on this clock."
_LEAST_WAIT = 0.02
"""Share of a process's time above which its wait in collectives is shown."""
_JSON_KEYS = ("rank", "device", "modelled", "host_ns", "time_ns", "waited_ns", "real_s", "error", "summary")


class TracedProcess:
    """The report of a process; empty if the process ended before it could write one."""

    def __init__(self, report: dict[str, Any]) -> None:
        self.report = report
        self.rank: int | None = report.get("rank")
        self.error = str(report.get("error", ""))
        self.traceback = str(report.get("broken", ""))
        """Traceback of an error in gpututor."""
        self.refused: tuple[str, str] | None = report.get("refused")
        """Title and advice if the program could not start."""
        self.device: dict[str, Any] = report.get("device", {})
        """Kind, name, count, memory_bytes and torch of the device that it ran on."""
        self.has_forked = bool(report.get("has_forked"))
        """True if it had children that report nothing."""
        self.summary: dict[str, Any] = report.get("summary", {})
        """Fields of `gpututor.trace.summary.Summary.to_json`; empty if there is none."""
        self.devices: list[dict[str, Any]] = self.summary.get("devices", [])
        """Summaries of the accelerators that it used."""
        self.time_ns: int = report.get("time_ns") or 0
        """Virtual clock at the end; 0 if time was not modelled."""
        self.waited_ns: int = report.get("waited_ns") or 0
        """Nanoseconds in which its devices waited for other processes; 0 if unknown."""
        self.busy_ns: int = self._most("busy")
        """Nanoseconds of work of its busiest device."""
        self.collective_ns: int = self._most("collective_time")
        """Nanoseconds of collectives on the device with most."""
        self.peak_bytes: int = self._most("peak_bytes")
        """Largest peak of memory on one device."""

    def _most(self, key: str) -> int:
        return max((device[key] for device in self.devices), default=0)

    def out_of_memory(self) -> str:
        """Describe where memory ran out; empty if it did not."""
        failures = [failure for device in self.devices for failure in device["out_of_memory"]]
        if not failures:
            return ""
        # The last one: a program may have caught the others.
        file, line = failures[-1]["place"]
        at = f" at {Path(file).name}:{line}" if line is not None else ""
        requested, allocated = size(failures[-1]["size_bytes"]), size(failures[-1]["allocated"])
        return f"out of memory{at}: {requested} asked for, {allocated} allocated"

    def name(self, number: int) -> str:
        """Return `rank 1`; without a rank `process 1`, by `number`, its place among the shown processes."""
        return f"process {number}" if self.rank is None else f"rank {self.rank}"


@dataclass(frozen=True)
class TracedRun:
    """A run of the program."""

    gpu: str | None
    code: int
    """Exit code; 128 + N for signal N."""
    main: TracedProcess
    children: Sequence[TracedProcess] = ()
    """Processes that it started and that used a device, by rank."""
    chrome: str = ""
    """File with the timeline of all processes that used a device; empty if there is none."""
    interrupted: bool = False
    """True if a signal interrupted gpututor during the run."""
    has_workers: bool = False
    """True if other processes computed without a device, such as workers of a DataLoader."""

    @property
    def shown(self) -> TracedProcess:
        """The process whose report represents the run."""
        return self.children[0] if self.children and not self.main.devices else self.main

    @property
    def processes(self) -> list[TracedProcess]:
        return [self.main, *self.children]

    def to_json(self) -> dict[str, Any]:
        """Return the run for `--json`."""
        reports = [process.report for process in self.processes if process.report]
        processes = [{key: report.get(key) for key in _JSON_KEYS} for report in reports]
        return {"gpu": self.gpu, "exit_code": self.code, "processes": processes}


def read_run(gpu: str | None, code: int, folder: Path, *, interrupted: bool = False) -> TracedRun:
    """Read the reports in `folder`."""
    reports = {path: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}
    first = folder / FIRST
    main = TracedProcess(reports.pop(first, {}))
    children = [(path, TracedProcess(report)) for path, report in reports.items()]
    used = [(path, child) for path, child in children if child.devices or child.traceback]
    used.sort(key=lambda pair: (pair[1].rank is None, pair[1].rank or 0, pair[0]))
    workers = [(path, child) for path, child in children if child.summary.get("events") and not child.devices]
    shown = [*([(first, main)] if main.devices or not used else []), *used, *workers]
    names = {path: process.name(number) if len(shown) > 1 else "" for number, (path, process) in enumerate(shown)}
    has_workers = bool(workers) or main.has_forked
    return TracedRun(gpu, code, main, [child for _, child in used], _timeline(names, folder), interrupted, has_workers)


def _timeline(names: dict[Path, str], folder: Path) -> str:
    """Write the timeline of the processes with these reports and names; return its path, empty without traces."""
    traces = {Path(f"{path}.trace"): name for path, name in names.items()}
    if not any(path.exists() for path in traces):
        return ""
    from gpututor.trace.export import read_processes, write_timelines

    path = folder / "timeline"
    with path.open("w", encoding="utf-8") as file:
        write_timelines(read_processes(traces), file)
    return str(path)


def describe_run(run: TracedRun, program: str) -> str:
    """Return the text of a run, ending in a newline."""
    program = escape_control_chars(program)
    if not run.main.report and not run.children:
        return f"gpututor: {program} ended {_ending(run.code)}, before its trace could be written.\n"
    process = run.shown
    if process.traceback:
        return f"gpututor: the trace of {program} could not be read. This is a bug in gpututor:\n{process.traceback}"
    lines = textwrap.wrap(_head(process, program), WIDTH)
    if run.code:
        error = _error(run.main)
        until = " This is what ran until then." if process.summary.get("events") else ""
        advice = f" {_ON_ALREADY}" if error.startswith(": RuntimeError: A virtual GPU is on already") else ""
        lines += textwrap.wrap(f"It ended {_ending(run.code)}{error.removesuffix('.')}.{advice}{until}", WIDTH)
    if run.has_workers and process.report["modelled"]:
        lines += textwrap.wrap(_WORKERS, WIDTH)
    nothing = "No device did anything: the program made, moved and computed no tensors.\n"
    table = [_processes(run)] if run.children else []
    return "\n".join(["\n".join(lines) + "\n", *table, process.report["words"] or nothing])


def _error(process: TracedProcess) -> str:
    """Return a short form of the uncaught exception; Python's own traceback is already on stderr."""
    words = escape_control_chars(process.error).replace("\n", " ")
    return f": {textwrap.shorten(words, MOST_OF_AN_ERROR, placeholder=' …')}" if words else ""


def _head(process: TracedProcess, program: str) -> str:
    device = process.device
    if not process.report["modelled"]:
        times = "times were measured" if process.summary.get("timed") else "times were not measured"
        return f"gpututor: {program} on {escape_control_chars(device['name'])}: its work was counted, {times}."
    return f"gpututor: {program} on {_virtual(device)}. Times are modelled, not measured."


def _virtual(device: dict[str, object]) -> str:
    if device["count"] == 0:
        return "a machine without a GPU"
    return f"a virtual {device['name']}" if device["count"] == 1 else f"{device['count']} virtual {device['name']}"


def _ending(code: int) -> str:
    names = {128 + number: number.name for number in signal.Signals}
    return f"by {names[code]}" if code in names else f"with exit code {code}"


def _processes(run: TracedRun) -> str:
    from gpututor.trace.text import table

    used = [process for process in run.processes if process.devices]
    rows: list[tuple[str, ...]] = [("", "modelled time", "GPU busy", "collectives", "waited", "peak memory")]
    has_collectives = any(process.collective_ns for process in used)
    for number, process in enumerate(used[:MOST_PROCESSES]):
        busy = share(process.busy_ns / process.time_ns) if process.time_ns else "-"
        times = (process.collective_ns, process.waited_ns)
        together = tuple(duration(time) if process.collective_ns else "" for time in times)
        rows.append((process.name(number), duration(process.time_ns), busy, *together, size(process.peak_bytes)))
    if not has_collectives:
        rows = [(*row[:3], row[5]) for row in rows]
    more = [f"  and {len(used) - MOST_PROCESSES:,} more"] if len(used) > MOST_PROCESSES else []
    follows = run.shown.name(0) if run.shown is not run.main else "the program's own process"
    heading = f"{len(used)} processes used a device; below is {follows}"
    slowest = textwrap.wrap(_longest_wait(used), WIDTH) if has_collectives else []
    return "\n".join([heading, *table(rows, indent=2), *more, *slowest]) + "\n"


def _longest_wait(used: list[TracedProcess]) -> str:
    """Describe the process that waited longest in collectives; empty if that was next to nothing."""
    number, process = max(enumerate(used), key=lambda pair: pair[1].waited_ns)
    if not process.time_ns or process.waited_ns < _LEAST_WAIT * process.time_ns:
        return ""
    part = share(process.waited_ns / process.time_ns)
    return (
        f"{process.name(number)} waited {duration(process.waited_ns)} for others in collectives, {part} of its time: "
        "the rank that waits least is the slowest."
    )


def compare_runs(runs: list[TracedRun], not_run: Sequence[str] = ()) -> str:
    """Return a table with a row for each GPU, ending in a newline; `not_run` are GPUs skipped after an interrupt."""
    from gpututor.trace.text import Candidate, comparison

    missing = [Candidate(name, None, 0.0, 0, 0, None, "not run: interrupted") for name in not_run]
    return comparison([*map(_candidate, runs), *missing], modelled=True)


def _candidate(run: TracedRun) -> Candidate:
    from gpututor.trace.text import LAUNCH_BOUND, Candidate

    device = run.shown.device
    ending = f"ended {_ending(run.code)}"
    if not device:
        failed = "interrupted" if run.interrupted else f"{ending}, before its trace could be written"
        return Candidate(run.gpu or "", None, 0.0, 0, 0, None, failed)
    oom = next(filter(None, (process.out_of_memory() for process in run.processes)), "")
    interrupted = run.interrupted and run.code != 0
    failed = "interrupted" if interrupted else f"{ending}{_error(run.main)}" if run.code else ""
    time = max(process.time_ns for process in run.processes)
    advice = run.shown.summary.get("advice", ())
    return Candidate(
        _model(device),
        time if run.code == 0 else None,
        max(process.busy_ns for process in run.processes) / time if time else 0.0,
        max(process.peak_bytes for process in run.processes),
        device["memory_bytes"] or 0,
        False if oom else None if interrupted else True,
        oom or failed,
        any(rule["rule"] == "launches" and rule["share"] >= LAUNCH_BOUND for rule in advice),
    )


def _model(device: dict[str, object]) -> str:
    if device["count"] == 0:
        return "without a GPU"
    return str(device["name"]) if device["count"] == 1 else f"{device['count']} x {device['name']}"

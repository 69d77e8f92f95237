"""Reports of `gpututor trace` in words."""

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
"""The report of the program's own process; see `gpututor.devices.process_report`, which is never imported here."""


@dataclass(frozen=True)
class Process:
    """One process's report."""

    found: dict[str, Any]
    """As it was written; empty when the process was ended before it could be."""

    @property
    def refused(self) -> tuple[str, str] | None:
        """Why the program could not even begin: a title and advice."""
        if "refused" not in self.found:
            return None
        title, advice = self.found["refused"]
        return str(title), str(advice)

    @property
    def broken(self) -> str:
        """The traceback of a fault of ours."""
        return str(self.found.get("broken", ""))

    @property
    def summary(self) -> dict[str, Any]:
        """See `gpututor.trace.summary.Summary.to_json`; empty when there is none."""
        return dict(self.found.get("summary", {}))

    @property
    def devices(self) -> list[dict[str, Any]]:
        """Summaries of accelerators; empty when none was used."""
        return list(self.summary.get("devices", ()))

    @property
    def device(self) -> dict[str, Any]:
        """What it ran on: kind, name, count, memory_bytes, torch."""
        return dict(self.found.get("device", {}))

    @property
    def has_forked(self) -> bool:
        """Whether it had children that report nothing."""
        return bool(self.found.get("has_forked"))

    @property
    def error(self) -> str:
        return str(self.found.get("error", ""))

    @property
    def time_ns(self) -> int:
        """Its virtual clock at the end; 0 where time was not modelled."""
        return self.found.get("time_ns") or 0

    @property
    def busy(self) -> int:
        """Nanoseconds in which its busiest device worked."""
        return max((one["busy"] for one in self.devices), default=0)

    @property
    def peak_bytes(self) -> int:
        """The most memory that was in use on one device."""
        return max((one["peak_bytes"] for one in self.devices), default=0)

    @property
    def waited_ns(self) -> int:
        """Nanoseconds in which its devices waited for those of other processes; 0 where that is not known."""
        return self.found.get("waited_ns") or 0

    @property
    def collective_ns(self) -> int:
        """Nanoseconds of collectives on the device that had most."""
        return max((one["collective_time"] for one in self.devices), default=0)

    def out_of_memory(self) -> str:
        """Where memory ran out, in words; empty when it did not."""
        refused = [failed for one in self.devices for failed in one["out_of_memory"]]
        if not refused:
            return ""
        # The last one: a program may have caught those before.
        file, line = refused[-1]["place"]
        at = f" at {Path(file).name}:{line}" if line is not None else ""
        asked, allocated = size(refused[-1]["size_bytes"]), size(refused[-1]["allocated"])
        return f"out of memory{at}: {asked} asked for, {allocated} allocated"

    def to_json(self) -> dict[str, Any]:
        """For `--json`."""
        keys = ("rank", "device", "modelled", "host_ns", "time_ns", "waited_ns", "real_s", "error", "summary")
        return {key: self.found.get(key) for key in keys}


@dataclass(frozen=True)
class Run:
    """One run of the program."""

    gpu: str | None
    """As the command line has it."""
    code: int
    """The exit code; 128 + N for signal N."""
    main: Process
    """The program's own process."""
    children: Sequence[Process] = ()
    """Processes that it started and whose devices did something, by their rank."""
    chrome: str = ""
    """The file with its timeline, of all processes that used a device; empty where none is wanted."""
    interrupted: bool = False
    """Whether somebody asked gpututor to end while it ran."""

    has_workers: bool = False
    """Whether processes computed that used no device, such as workers of a DataLoader."""

    @property
    def told(self) -> Process:
        """The process whose report stands for the run."""
        return self.children[0] if self.children and not self.main.devices else self.main

    @property
    def processes(self) -> list[Process]:
        return [self.main, *self.children]

    def to_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "gpu": self.gpu,
            "exit_code": self.code,
            "processes": [one.to_json() for one in self.processes if one.found],
        }


def read_run(gpu: str | None, code: int, folder: Path, *, interrupted: bool = False) -> Run:
    """The reports in `folder`."""
    found = {path: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}
    main = Process(found.pop(folder / FIRST, {}))
    children = [(path, Process(one)) for path, one in found.items()]
    used = [(path, one) for path, one in children if one.devices or one.broken]
    used.sort(key=lambda pair: (_rank(pair[1]), pair[0]))
    shown = [(folder / FIRST, main)] if main.devices or not used else []
    shown += used
    # Such as workers of a DataLoader, which compute on the CPU.
    workers = [(path, one) for path, one in children if one.summary.get("events") and not one.devices]
    shown += workers
    names = {path: process_name(one, number) if len(shown) > 1 else "" for number, (path, one) in enumerate(shown)}
    return Run(
        gpu,
        code,
        main,
        [one for _, one in used],
        _timeline(names, folder),
        interrupted,
        bool(workers) or main.has_forked,
    )


def _timeline(names: dict[Path, str], folder: Path) -> str:
    """The timeline of the processes with reports of these names; empty where none left a trace."""
    traces = {Path(f"{path}.trace"): name for path, name in names.items()}
    if not any(path.exists() for path in traces):
        return ""
    from gpututor.trace.export import read_processes, write_timelines

    path = folder / "timeline"
    with path.open("w", encoding="utf-8") as file:
        write_timelines(read_processes(traces), file)
    return str(path)


def process_name(process: Process, number: int) -> str:
    """`rank 1`; of a process without a rank `process 1`, by `number`, its place among those that are told of."""
    rank = process.found.get("rank")
    return f"rank {rank}" if rank is not None else f"process {number}"


def _rank(process: Process) -> int:
    rank = process.found.get("rank")
    return rank if rank is not None else 1 << 30


WIDTH = 80
MOST_OF_AN_ERROR = 150
MOST_PROCESSES = 16
_ON_ALREADY = "The script enters `virtual_gpu()` itself: remove that block, or run the script by plain `python`."
_WORKERS = "Work of DataLoader workers, and of other processes without a GPU, costs nothing on this clock."
_LAUNCH_BOUND = 0.3
"""Of a run's time that launches cost: more, and the host decides how long it takes."""
_WORTH_TELLING = 0.02
"""Of a process's time."""


def told(run: Run, program: str) -> str:
    """The run in words, ending in a newline."""
    program = escape_control_chars(program)
    if not run.main.found and not run.children:
        return f"gpututor: {program} ended {_how(run.code)}, before its trace could be written.\n"
    process = run.told
    if process.broken:
        return f"gpututor: the trace of {program} could not be read. This is a fault of gpututor:\n{process.broken}"
    lines = textwrap.wrap(_head(process, program), WIDTH)
    if run.code:
        error = _error(run.main)
        until = " This is what ran until then." if process.summary.get("events") else ""
        advice = f" {_ON_ALREADY}" if error.startswith(": RuntimeError: A virtual GPU is on already") else ""
        lines += textwrap.wrap(f"It ended {_how(run.code)}{error.removesuffix('.')}.{advice}{until}", WIDTH)
    if run.has_workers and process.found["modelled"]:
        lines += textwrap.wrap(_WORKERS, WIDTH)
    parts = ["\n".join(lines) + "\n"]
    if run.children:
        parts.append(_processes(run))
    parts.append(
        process.found["words"] or "No device did anything: nothing was made, moved or computed with PyTorch.\n"
    )
    return "\n".join(parts)


def _error(process: Process) -> str:
    """What nobody caught, in a few words: the whole of it stands above, as Python told it."""
    words = escape_control_chars(process.error).replace("\n", " ")
    return f": {textwrap.shorten(words, MOST_OF_AN_ERROR, placeholder=' …')}" if words else ""


def _head(process: Process, program: str) -> str:
    device = process.device
    if not process.found["modelled"]:
        times = "times were measured" if process.summary.get("timed") else "times were not measured"
        return f"gpututor: {program} on {escape_control_chars(device['name'])}: what it did was counted, {times}."
    return f"gpututor: {program} on {_virtual(device)}. Times are modelled, not measured."


def _virtual(device: dict[str, object]) -> str:
    if device["count"] == 0:
        return "a machine without a GPU"
    return f"a virtual {device['name']}" if device["count"] == 1 else f"{device['count']} virtual {device['name']}"


def _how(code: int) -> str:
    if code > 128:
        try:
            return f"by {signal.Signals(code - 128).name}"
        except ValueError:
            pass
    return f"with exit code {code}"


def _processes(run: Run) -> str:
    """A line for each process that used a device."""
    from gpututor.trace.text import table

    used = [one for one in run.processes if one.devices]
    rows: list[tuple[str, ...]] = [("", "modelled time", "GPU busy", "collectives", "waited", "peak memory")]
    meets = any(one.collective_ns for one in used)
    for number, one in enumerate(used[:MOST_PROCESSES]):
        busy = share(one.busy / one.time_ns) if one.time_ns else "-"
        together = (duration(one.collective_ns), duration(one.waited_ns)) if one.collective_ns else ("", "")
        rows.append((process_name(one, number), duration(one.time_ns), busy, *together, size(one.peak_bytes)))
    if not meets:
        rows = [(*row[:3], row[5]) for row in rows]
    more = [f"  and {len(used) - MOST_PROCESSES:,} more"] if len(used) > MOST_PROCESSES else []
    follows = process_name(run.told, 0) if run.told is not run.main else "the program's own process"
    heading = f"{len(used)} processes used a device; below is {follows}"
    slowest = textwrap.wrap(_waiting(used), WIDTH) if meets else []
    return "\n".join([heading, *table(rows, indent=2), *more, *slowest]) + "\n"


def _waiting(used: list[Process]) -> str:
    """Who waited longest for the others in collectives; empty where that is next to nothing."""
    number, one = max(enumerate(used), key=lambda pair: pair[1].waited_ns)
    if not one.time_ns or one.waited_ns < _WORTH_TELLING * one.time_ns:
        return ""
    part = share(one.waited_ns / one.time_ns)
    return (
        f"{process_name(one, number)} waited {duration(one.waited_ns)} for others in collectives, {part} of its time: "
        "the rank that waits least is the slowest."
    )


def compared(runs: list[Run], not_run: Sequence[str] = ()) -> str:
    """A table with a row for each GPU, ending in a newline; `not_run` are those that an interrupt came before."""
    from gpututor.trace.text import Candidate, comparison

    missing = [Candidate(name, None, 0.0, 0, 0, None, "not run: interrupted") for name in not_run]
    return comparison([*map(_candidate, runs), *missing], modelled=True)


def _candidate(run: Run) -> Candidate:
    from gpututor.trace.text import Candidate

    device = run.told.device
    if not device:
        ended = f"ended {_how(run.code)}, before its trace could be written"
        return Candidate(run.gpu or "", None, 0.0, 0, 0, None, "interrupted" if run.interrupted else ended)
    refused = next(filter(None, (one.out_of_memory() for one in run.processes)), "")
    interrupted = run.interrupted and run.code != 0
    failed = "interrupted" if interrupted else f"ended {_how(run.code)}{_error(run.main)}" if run.code else ""
    time = max(one.time_ns for one in run.processes)
    return Candidate(
        _model(device),
        time if run.code == 0 else None,
        max(one.busy for one in run.processes) / time if time else 0.0,
        max(one.peak_bytes for one in run.processes),
        device["memory_bytes"] or 0,
        False if refused else None if interrupted else True,
        refused or failed,
        any(one["rule"] == "launches" and one["share"] >= _LAUNCH_BOUND for one in run.told.summary.get("advice", ())),
    )


def _model(device: dict[str, object]) -> str:
    if device["count"] == 0:
        return "without a GPU"
    return str(device["name"]) if device["count"] == 1 else f"{device['count']} x {device['name']}"

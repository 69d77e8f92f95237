"""What `gpututor trace` says of its runs."""

from __future__ import annotations

import signal
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpututor.cli.traced import Process, Run, process_name
from gpututor.plain_text import visible
from gpututor.trace.units import duration, share, size

if TYPE_CHECKING:
    from gpututor.trace.words import Candidate

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
    program = visible(program)
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
    words = visible(process.error).replace("\n", " ")
    return f": {textwrap.shorten(words, MOST_OF_AN_ERROR, placeholder=' …')}" if words else ""


def _head(process: Process, program: str) -> str:
    device = process.device
    if not process.found["modelled"]:
        times = "times were measured" if process.summary.get("timed") else "times were not measured"
        return f"gpututor: {program} on {visible(device['name'])}: what it did was counted, {times}."
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
    from gpututor.trace.words import table

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
    from gpututor.trace.words import Candidate, comparison

    missing = [Candidate(name, None, 0.0, 0, 0, None, "not run: interrupted") for name in not_run]
    return comparison([*map(_candidate, runs), *missing], modelled=True)


def _candidate(run: Run) -> Candidate:
    from gpututor.trace.words import Candidate

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

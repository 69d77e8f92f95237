"""What `gpututor trace` says of its runs."""

from __future__ import annotations

import os
import signal
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpututor.plain_text import visible
from gpututor.trace.units import size

if TYPE_CHECKING:
    from gpututor.trace.words import Candidate


WIDTH = 80
MOST_OF_AN_ERROR = 150


@dataclass(frozen=True)
class Run:
    """How one run of the program ended, and what was seen of it."""

    gpu: str | None
    """As the command line has it."""
    code: int
    """The exit code; 128 + N for signal N."""
    found: dict[str, Any]
    """What `gpututor.worker.tracing` wrote; empty when it was ended before it could."""

    @property
    def summary(self) -> dict[str, Any] | None:
        return self.found.get("summary")

    def to_json(self) -> dict[str, Any]:
        """For `--json`."""
        keys = ("device", "modelled", "host_ns", "time_ns", "real_s", "error", "summary")
        return {"gpu": self.gpu, "exit_code": self.code} | {key: self.found.get(key) for key in keys}


def told(run: Run, program: str) -> str:
    """The run in words, ending in a newline."""
    program = visible(program)
    if not run.found:
        return f"gpututor: {program} ended {_how(run.code)}, before its trace could be written.\n"
    if "broken" in run.found:
        return (
            f"gpututor: the trace of {program} could not be read. This is a fault of gpututor:\n{run.found['broken']}"
        )
    lines = [_head(run, program)]
    if run.code:
        lines += textwrap.wrap(f"It ended {_how(run.code)}{_error(run)}. This is what ran until then.", WIDTH)
    words = run.found["words"] or "No device did anything: nothing was made, moved or computed with PyTorch.\n"
    return "\n".join(lines) + f"\n\n{words}"


def _error(run: Run) -> str:
    """What nobody caught, in a few words: the whole of it stands above, as Python told it."""
    words = visible(run.found.get("error", "")).replace("\n", " ")
    return f": {textwrap.shorten(words, MOST_OF_AN_ERROR, placeholder=' …')}" if words else ""


def _head(run: Run, program: str) -> str:
    device = run.found["device"]
    if not run.found["modelled"]:
        times = "times were measured" if run.summary and run.summary["timed"] else "times were not measured"
        words = f"gpututor: {program} on {visible(device['name'])}: what it did was counted, {times}."
        return textwrap.fill(words, WIDTH)
    several = f"{device['count']} virtual {device['name']}" if device["count"] != 1 else f"a virtual {device['name']}"
    return f"gpututor: {program} on {several}. Times are modelled, not measured."


def _how(code: int) -> str:
    if code > 128:
        try:
            return f"by {signal.Signals(code - 128).name}"
        except ValueError:
            pass
    return f"with exit code {code}"


def compared(runs: list[Run]) -> str:
    """A table with a row for each GPU, ending in a newline."""
    from gpututor.trace.words import comparison

    return comparison([_candidate(run) for run in runs], modelled=True)


def _candidate(run: Run) -> Candidate:
    from gpututor.trace.words import Candidate

    summary = run.summary
    if summary is None:
        ended = f"ended {_how(run.code)}, before its trace could be written"
        return Candidate(run.gpu or "", None, 0.0, 0, 0, True, ended)
    device, time, busiest = run.found["device"], run.found["time_ns"], summary["devices"]
    refused = [failed for one in busiest for failed in one["out_of_memory"]]
    note = ""
    if run.code:
        note = f"ended {_how(run.code)}{_error(run)}"
    if refused:
        # The last one: PyTorch gives its cache back and asks again, and a program may have caught one before.
        file, line = refused[-1]["place"]
        at = f" at {os.path.basename(file)}:{line}" if line is not None else ""
        asked, allocated = size(refused[-1]["size_bytes"]), size(refused[-1]["allocated"])
        note = f"out of memory{at}: {asked} asked for, {allocated} allocated"
    return Candidate(
        device["name"] if device["count"] == 1 else f"{device['count']} x {device['name']}",
        time if run.code == 0 else None,
        max((one["busy"] for one in busiest), default=0) / time if time else 0.0,
        max((one["peak_bytes"] for one in busiest), default=0),
        device["memory_bytes"] or 0,
        not refused,
        note,
    )

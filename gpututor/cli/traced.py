"""What `gpututor trace` got of a run: the reports of its processes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpututor.trace.units import size

FIRST = "program.json"
"""The report of the program's own process; see `gpututor.devices.reports`, which is never imported here."""


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
    from gpututor.trace.merging import read_processes, write_together

    path = folder / "timeline"
    with path.open("w", encoding="utf-8") as file:
        write_together(read_processes(traces), file)
    return str(path)


def process_name(process: Process, number: int) -> str:
    """`rank 1`; of a process without a rank `process 1`, by `number`, its place among those that are told of."""
    rank = process.found.get("rank")
    return f"rank {rank}" if rank is not None else f"process {number}"


def _rank(process: Process) -> int:
    rank = process.found.get("rank")
    return rank if rank is not None else 1 << 30

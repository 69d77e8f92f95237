"""Recordings of the devices during a grading: a folder with `recording.json`, and a trace for each call.

The judge writes it to `GradeRequest.recording_folder`; no verdict depends on it. No torch and no NumPy here: the
figures can be read without the traces.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from gpututor.json_dataclasses import read

FILE = "recording.json"
VERSION = 1
MOST_BYTES = 64 << 20
"""Disk space of the traces of one grading."""
_RANK = re.compile(r", rank (\d+)")
_LARGEST_FILE = 16 << 20


@dataclass(frozen=True)
class LineCost:
    """Device work caused by one line of the submission, in all recorded calls of a run together."""

    line: int
    kernels: int
    """Kernels and collectives on accelerators."""
    kernel_ns: int
    copies: int
    copy_ns: int
    copied_bytes: int
    waits: int
    wait_ns: int
    allocated_bytes: int
    """Sum of all allocations; memory that was freed is not subtracted."""
    hazards: tuple[str, ...] = ()
    """A sentence without a full stop for each hazard."""


@dataclass(frozen=True)
class CallRecording:
    """A call of the learner's function, or a rank of it."""

    words: str
    """`call 2 of 3, with x of shape (7, 1)`, or with several processes `call 1 of 2, rank 0`."""
    trace: str
    """The name of its file in the folder; empty if the trace was left out."""
    elapsed_ns: int
    """Nanoseconds from the call until all devices were done."""
    floor_ns: int
    """Least nanoseconds for the same work, by the device's bandwidth and compute rate; 0 if unknown."""
    peak_bytes: int
    """Most bytes that tensors held on one device."""
    peak_line: int | None
    """The line of the submission that reached the peak; None if no line did."""
    events: int
    """Number of events, including dropped ones."""
    dropped: int
    stopped: bool = False
    """True if an error ended the call: the recording ends there."""

    def __post_init__(self) -> None:
        if self.trace and (Path(self.trace).name != self.trace or self.trace in (".", "..")):
            raise ValueError(f"trace must be the name of a file, not {self.trace[:60]!r}")
        for name in ("elapsed_ns", "floor_ns", "peak_bytes", "events", "dropped"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative")


def _sum_of_calls(calls: Iterable[CallRecording], field: str = "elapsed_ns") -> int:
    """Return the sum over all calls. Processes of one call run at the same time: only the slowest counts."""
    longest: dict[str, int] = {}
    for number, call in enumerate(calls):
        name, ranks = _RANK.subn("", call.words, count=1)
        name = name if ranks else f"{number}"
        longest[name] = max(longest.get(name, 0), getattr(call, field))
    return sum(longest.values())


@dataclass(frozen=True)
class BaselineRecording:
    """The same calls of a file that the submission is compared with."""

    name: str
    calls: tuple[CallRecording, ...]

    @property
    def elapsed_ns(self) -> int:
        return _sum_of_calls(self.calls)


@dataclass(frozen=True)
class RunRecording:
    """The recording of a scenario."""

    scenario: str
    device: str
    times: Literal["", "modelled", "measured"]
    """Origin of its times; empty without times."""
    calls: tuple[CallRecording, ...]
    baselines: tuple[BaselineRecording, ...]
    lines: tuple[LineCost, ...]
    memory_bytes: int = 0
    """Memory of each device; 0 if unknown."""

    @property
    def elapsed_ns(self) -> int:
        return _sum_of_calls(self.calls)

    @property
    def floor_ns(self) -> int:
        """Least nanoseconds of all calls; 0 if any call's is unknown."""
        return _sum_of_calls(self.calls, "floor_ns") if all(call.floor_ns for call in self.calls) else 0

    @property
    def peak_bytes(self) -> int:
        return max((call.peak_bytes for call in self.calls), default=0)


@dataclass(frozen=True)
class Recording:
    """Figures of one grading."""

    runs: tuple[RunRecording, ...]
    left_out: str = ""
    """A sentence on what is missing in the traces; empty if they are complete."""
    folder: str = ""

    @property
    def elapsed_ns(self) -> int:
        """Nanoseconds of all calls of all runs; 0 if nothing was timed."""
        return sum(run.elapsed_ns for run in self.runs if run.times)

    @property
    def peak_bytes(self) -> int:
        return max((run.peak_bytes for run in self.runs), default=0)

    def trace_path(self, call: CallRecording) -> Path | None:
        """Return the file of the call's trace, for `read_trace`; None if the trace was left out."""
        return Path(self.folder) / call.trace if call.trace else None

    def to_json(self) -> dict[str, Any]:
        data = asdict(self)
        del data["folder"]
        return {"version": VERSION, **data}

    @classmethod
    def from_json(cls, data: object, folder: str = "") -> Recording:
        """Read what `to_json` returned. Raises `ValueError` that names the place."""
        if not isinstance(data, dict):
            raise ValueError("a recording must be an object")
        if data.get("version") != VERSION:
            raise ValueError(f"version must be {VERSION}: another version of gpututor wrote the recording")
        rest = {name: value for name, value in data.items() if name != "version"}
        if "folder" in rest:
            raise ValueError("folder is not a key of a Recording")
        return read(cls, {**rest, "folder": folder}, "")


def read_recording(folder: Path | str) -> Recording:
    """Read the recording in a folder. Raises `ValueError` for a broken recording, `OSError` for an unreadable one."""
    path = Path(folder) / FILE
    if path.stat().st_size > _LARGEST_FILE:
        raise ValueError(f"{path} is larger than any recording")
    try:
        return Recording.from_json(json.loads(path.read_bytes()), str(folder))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: {error}") from error


def write_recording(recording: Recording, folder: Path | str) -> None:
    """Write the figures next to the traces, whole or not at all. Raises `OSError`."""
    from gpututor.files import write_atomically

    write_atomically(Path(folder) / FILE, json.dumps(recording.to_json()) + "\n")

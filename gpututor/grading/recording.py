"""What the devices did while a submission was graded: a folder with `recording.json`, and a trace for each call.

The judge writes it where `GradeRequest.recording_folder` says so; no verdict depends on it. No torch and no NumPy here:
who only wants the figures need not read the traces.
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
"""What the traces of one grading may take on the disk."""
_RANK = re.compile(r", rank (\d+)")
_LARGEST_FILE = 16 << 20


@dataclass(frozen=True)
class LineCost:
    """What one line of the submission caused, in all recorded calls of a run together."""

    line: int
    kernels: int
    """Kernels and collectives on accelerators."""
    kernel_ns: int
    copies: int
    copy_ns: int
    copied_bytes: int
    waits: int
    """How often the host waited for a device."""
    wait_ns: int
    allocated_bytes: int
    """The sum of what was taken of a device's memory; nothing is taken off for what was given back."""
    hazards: tuple[str, ...] = ()
    """What is wrong there, a sentence without a full stop for each."""


@dataclass(frozen=True)
class CallRecording:
    """One call of the learner's function, or one rank of it."""

    words: str
    """`call 2 of 3, with x of shape (7, 1)`; of several processes also which: `call 1 of 2, rank 0`."""
    trace: str
    """The name of its file in the folder; empty where it was left out."""
    elapsed_ns: int
    """From the call until all devices were done."""
    floor_ns: int
    """No program can do the same in less on this device, by its bandwidth and rate; 0 where that is not known."""
    peak_bytes: int
    """The most memory that tensors held on one device."""
    peak_line: int | None
    """The line of the submission that reached it; None where none did."""
    events: int
    """How many things the devices did."""
    dropped: int
    """How many of them are not in the trace."""
    stopped: bool = False
    """Whether the file stopped in it with an error: it is known as far as it came."""

    def __post_init__(self) -> None:
        if self.trace and (Path(self.trace).name != self.trace or self.trace in (".", "..")):
            raise ValueError(f"trace must be the name of a file, not {self.trace[:60]!r}")
        for name in ("elapsed_ns", "floor_ns", "peak_bytes", "events", "dropped"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative")


def _one_after_the_other(times: Iterable[tuple[str, int]]) -> int:
    """Of calls by their words, in nanoseconds; processes of one call run side by side, and the slowest counts."""
    longest: dict[str, int] = {}
    for number, (words, time_ns) in enumerate(times):
        call, ranks = _RANK.subn("", words, count=1)
        name = call if ranks else f"{number}"
        longest[name] = max(longest.get(name, 0), time_ns)
    return sum(longest.values())


@dataclass(frozen=True)
class BaselineRecording:
    """The same calls of a file that the submission is compared with."""

    name: str
    """The file's name in the exercise's folder."""
    calls: tuple[CallRecording, ...]

    @property
    def elapsed_ns(self) -> int:
        """Of all calls, one after the other."""
        return _one_after_the_other((call.words, call.elapsed_ns) for call in self.calls)


@dataclass(frozen=True)
class RunRecording:
    """One scenario."""

    scenario: str
    device: str
    """For people, as in the report."""
    times: Literal["", "modelled", "measured"]
    """How its times are known; empty where it has none."""
    calls: tuple[CallRecording, ...]
    baselines: tuple[BaselineRecording, ...]
    lines: tuple[LineCost, ...]
    """By line, those that caused anything."""
    memory_bytes: int = 0
    """Of each device; 0 where that is not known."""

    @property
    def elapsed_ns(self) -> int:
        """Of all calls, one after the other."""
        return _one_after_the_other((call.words, call.elapsed_ns) for call in self.calls)

    @property
    def floor_ns(self) -> int:
        """Of all calls, one after the other; 0 where that of any is not known."""
        if not all(call.floor_ns for call in self.calls):
            return 0
        return _one_after_the_other((call.words, call.floor_ns) for call in self.calls)

    @property
    def peak_bytes(self) -> int:
        """Of the call that held most."""
        return max((call.peak_bytes for call in self.calls), default=0)


@dataclass(frozen=True)
class Recording:
    """Everything that was recorded of one grading."""

    runs: tuple[RunRecording, ...]
    left_out: str = ""
    """What is missing in the traces, in a sentence; empty when nothing is."""
    folder: str = ""
    """Where it was read from."""

    @property
    def elapsed_ns(self) -> int:
        """Of all calls of all runs; 0 where nothing was timed."""
        return sum(run.elapsed_ns for run in self.runs if run.times)

    @property
    def peak_bytes(self) -> int:
        return max((run.peak_bytes for run in self.runs), default=0)

    def trace_path(self, call: CallRecording) -> Path | None:
        """The file of the call's trace, for `gpututor.trace.serialization.read_trace`; None where it was left out."""
        return Path(self.folder) / call.trace if call.trace else None

    def to_json(self) -> dict[str, Any]:
        data = asdict(self)
        del data["folder"]
        return {"version": VERSION, **data}

    @classmethod
    def from_json(cls, data: object, folder: str = "") -> Recording:
        """Read what `to_json` wrote. Raises `ValueError` that names what is wrong."""
        if not isinstance(data, dict):
            raise ValueError("a recording must be an object")
        if data.get("version") != VERSION:
            raise ValueError(f"version must be {VERSION}: the recording is of another gpututor")
        rest = {name: value for name, value in data.items() if name != "version"}
        if "folder" in rest:
            raise ValueError("folder is no key of a Recording")
        return read(cls, {**rest, "folder": folder}, "")


def read_recording(folder: Path | str) -> Recording:
    """What stands in the folder. Raises `ValueError` for a broken one, `OSError` where it cannot be read."""
    path = Path(folder) / FILE
    if path.stat().st_size > _LARGEST_FILE:
        raise ValueError(f"{path} is larger than any recording")
    try:
        return Recording.from_json(json.loads(path.read_bytes()), str(folder))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: {error}") from error


def write_recording(recording: Recording, folder: Path | str) -> None:
    """Write the figures beside the traces, whole or not at all. Raises `OSError`."""
    from gpututor.files import write_atomically

    write_atomically(Path(folder) / FILE, json.dumps(recording.to_json()) + "\n")

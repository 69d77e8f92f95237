"""Messages between judge and worker: the machine of a run, failures, and the limits of both sides.

The worker sends `ready` once. For each scenario, the judge sends `load`, and the worker answers `loaded` or `failed`.
For each call, the judge sends `call` with the inputs, and the worker answers `returned` or `failed`. For timing, `load`
contains `observed: false`, and each `time` contains the inputs of many calls, which one `timed` answers. `leave` ends
the scenario, and `left` answers it. Instead of a scenario, `open` sends a file to read, and `opened` answers it.

Each answer repeats the `ticket` of its request, see `gpututor.judge.channel`. In an observed scenario it also lists
`changed` code of the worker, see `gpututor.worker.integrity`. The worker dies when the judge closes.

Both sides have the same limits. The judge rejects a larger answer, because the worker's own code never sends one.
"""

from __future__ import annotations

import os
import re
import resource
import signal
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from gpututor.hardware.scenario import Scenario
from gpututor.protocol.frames import Bounds, FrameError

FailureKind = Literal[
    "syntax", "exception", "missing", "exit", "out of memory", "refused", "unsupported",
    "rank ended", "rank killed", "rank hangs",
]  # fmt: skip

SENT_BY_OTHERS = (signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM)
"""Signals that usually come from outside: from the system when memory is short, or from a person."""

RESIDENT_BYTES = 4 << 30
"""Memory of all processes of a worker beyond that of a fresh worker; the judge monitors it."""
PROCESSES = 64
"""Concurrent processes of a worker, including itself; the judge monitors them."""
THREADS = 512
"""Threads of all processes of a worker; the judge monitors them."""
SCRATCH_BYTES = 512 << 20
"""Size of a worker's scratch folder, and of its /dev/shm."""
SCRATCH_FILES = 10_000
"""Files and folders in the scratch folder."""


def resident_limit_bytes() -> int:
    """Return `RESIDENT_BYTES`, or half of a smaller machine's memory."""
    return min(RESIDENT_BYTES, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2)


@dataclass(frozen=True)
class MachineSpec:
    """A scenario made real or virtual for one run."""

    scenario: Scenario
    kind: str
    """`virtual`, `cpu`, `cuda`, `mps` or `xpu`."""
    index: int
    """The number of the first real device; 0 on the virtual GPU."""

    @property
    def device(self) -> str:
        """The device for work: `cuda:0`, or `cpu` without a GPU."""
        if self.kind == "virtual":
            return "cuda:0" if self.scenario.gpus and "cuda" in self.scenario.backends else "cpu"
        return "cpu" if self.kind == "cpu" else f"{self.kind}:{self.index}"

    def to_json(self) -> dict[str, Any]:
        return {"scenario": self.scenario.to_json(), "kind": self.kind, "index": self.index}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> MachineSpec:
        return cls(Scenario.from_json(data["scenario"]), data["kind"], data["index"])


LONGEST_MIXED = 2000
"""Characters of an error's message in which `mixes_devices` searches."""


@dataclass(frozen=True)
class Failure:
    """Reason why a submission could not be loaded or called. The texts come from the worker and are never trusted."""

    kind: FailureKind
    type_name: str
    """The exception's type, such as `NameError`."""
    message: str
    line: int | None
    """The line of the learner's file, from 1."""
    traceback: str
    """The learner's own frames, as Python prints them."""
    tensors: str = ""
    """Tensors of the failed expression if they are on several devices: `x on cuda:0, self.mean on cpu`."""

    @classmethod
    def from_json(cls, data: object) -> Failure:
        """Read what a worker sent; cut long texts. Raises `FrameError` for anything invalid."""
        if not isinstance(data, dict) or set(data) != {field.name for field in fields(cls)}:
            raise FrameError("this is not a failure")
        line = data["line"]
        if data["kind"] not in get_args(FailureKind) or not (line is None or (type(line) is int and line > 0)):
            raise FrameError("a failure of an unknown kind")
        texts = [data["type_name"], data["message"], data["traceback"], data["tensors"]]
        if not all(isinstance(text, str) for text in texts):
            raise FrameError("a failure whose texts are not strings")
        return cls(data["kind"], texts[0][:200], texts[1][:10_000], line, texts[2][:40_000], texts[3][:1000])


_MIXED = re.compile(
    r"(on|have) the same device|at least two devices|different from other tensors on|Input type .* should be the same"
)


def mixes_devices(type_name: str, message: str) -> bool:
    """Return True if an error is about tensors on several devices."""
    return type_name == "RuntimeError" and _MIXED.search(message[:LONGEST_MIXED]) is not None


@dataclass(frozen=True)
class GivenFault:
    """A fault of an exercise's `given.py`, as its worker reports it. Trusted for the author's solution only."""

    said: str
    """The exception's type and message."""
    frames: tuple[tuple[int, str], ...]
    """Line and function of each frame in `given.py`, outermost first."""

    @classmethod
    def from_json(cls, data: object) -> GivenFault | None:
        """Read what a worker sent; return None for anything invalid."""
        match data:
            case {"said": str(said), "frames": list(frames)} if all(
                isinstance(frame, list) and list(map(type, frame)) == [int, str] for frame in frames
            ):
                return cls(said[:2000], tuple((line, name[:200]) for line, name in frames[-20:]))
        return None


def signal_name(number: int) -> str:
    """Return the name of a signal: `SIGSEGV`, or `signal 40` for a signal without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


TICKET = "ticket"
"""Key of the secret in each request, which its answer must repeat."""
EVENTS = 500_000
"""Events of one call; the judge reads them in 1.4 s."""
_EVENT_BYTES = 96
"""Bytes of an event's numbers in JSON; 39 are usual."""
_EVENT_PARTS = 16
_VALUES_BYTES = 48 << 20
"""Bytes of a header without events: 200,000 values, 4 Mi characters escaped, and the facts of the arguments."""
_VALUES_PARTS = 4 << 20
FILES_BYTES = 64 << 20
"""Size of all files of a call that are sent to the judge."""
KEPT_BYTES = 1 << 30
"""Size of all answers to the calls of one run, which the judge holds until its verdicts."""
MOST_NAMES = 50
"""Number of reported names of a scratch folder."""
LONGEST_NAME = 120
"""Characters of each reported name."""

SMALL = Bounds(header_bytes=1 << 20, parts=1 << 17, buffers=0, buffer_bytes=0, total_bytes=0)
"""Bounds of answers without values. The longest is a failure."""


@dataclass(frozen=True)
class Sizes:
    """Limits of one answer to a call."""

    result_bytes: int = 64 << 20
    events: int = EVENTS

    @property
    def bounds(self) -> Bounds:
        return Bounds(
            header_bytes=_VALUES_BYTES + _EVENT_BYTES * self.events,
            parts=_VALUES_PARTS + _EVENT_PARTS * self.events,
            buffers=4096 + 256,
            buffer_bytes=max(self.result_bytes, FILES_BYTES),
            total_bytes=self.result_bytes + FILES_BYTES,
        )


FILE_BYTES = 256 << 20
"""Size of one file; `RLIMIT_FSIZE`."""
DATA_BYTES = 8 << 30
"""Private memory of one process; `RLIMIT_DATA`, because `RLIMIT_AS` breaks CUDA builds of torch."""
OPEN_FILES = 1024
"""`RLIMIT_NOFILE`."""
TASKS = 1024
"""`RLIMIT_NPROC` in a worker's own user namespace: elsewhere it would count the user's whole desktop.

Above `THREADS`, so that the judge reports the excess first.
"""


def apply_limits(own_namespace: bool = False) -> None:
    """Limit core dumps, files, memory and open files of this process and its descendants."""
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: FILE_BYTES,
        resource.RLIMIT_DATA: DATA_BYTES,
        resource.RLIMIT_NOFILE: OPEN_FILES,
    }
    release = [int(part) for part in os.uname().release.split(".")[:2] if part.isdigit()]
    if own_namespace and release >= [5, 14]:  # older versions of Linux count all processes of a user
        limits[resource.RLIMIT_NPROC] = TASKS
    for what, wanted in limits.items():
        _, hard = resource.getrlimit(what)
        value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(what, (value, value))

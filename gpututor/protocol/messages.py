"""Messages between judge and worker: the machine of a run, failures, and the limits that both sides keep to.

The worker says `ready` once. Then, for each scenario: the judge sends `load`, the worker answers `loaded` or `failed`;
the judge sends `call` for each case, the worker answers `returned` or `failed`. The inputs of a case are only revealed
by its `call`. For timing, `load` says `observed: false`, and each `time` brings the inputs of many calls, which are
answered by one `timed`. `leave` ends the scenario, and is answered by `left`. Each answer repeats the `ticket` of its
request, see `gpututor.judge.channel`, and says what was `changed` in the worker, see `gpututor.worker.integrity`.
The worker dies when the judge closes.

What is over these sizes all the same was not written by the worker.
"""

from __future__ import annotations

import os
import re
import resource
import signal
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from gpututor.hardware.scenario import Scenario
from gpututor.protocol.frames import Bounds, FrameError

FailureKind = Literal[
    "syntax",
    "exception",
    "missing",
    "exit",
    "out of memory",
    "refused",
    "unsupported",
    "rank ended",
    "rank killed",
    "rank hangs",
]

SENT_BY_OTHERS = (signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM)
"""Signals that mostly come from outside: from the system where memory runs short, or from a person."""


RESIDENT_BYTES = 4 << 30
"""Of all processes of a worker together, beyond what a fresh one has: watched by the judge."""
PROCESSES = 64
"""Of a worker at one time, itself included: watched by the judge."""
THREADS = 512
"""Of all processes of a worker together: watched by the judge."""
SCRATCH_BYTES = 512 << 20
"""Of a worker's scratch folder, and once more of its /dev/shm."""
SCRATCH_FILES = 10_000
"""Files and folders in the scratch folder."""


def resident_limit_bytes() -> int:
    """`RESIDENT_BYTES`, or half of the memory of a machine that has less than twice that."""
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
        """Where work belongs: `cuda:0`, or `cpu` when there is no GPU."""
        if self.kind == "virtual":
            return "cuda:0" if self.scenario.gpus and "cuda" in self.scenario.backends else "cpu"
        return "cpu" if self.kind == "cpu" else f"{self.kind}:{self.index}"

    def to_json(self) -> dict[str, Any]:
        return {"scenario": self.scenario.to_json(), "kind": self.kind, "index": self.index}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> MachineSpec:
        return cls(Scenario.from_json(data["scenario"]), data["kind"], data["index"])


LONGEST_MIXED = 2000
"""Characters of an error's message that are searched."""


@dataclass(frozen=True)
class Failure:
    """Why a submission could not be loaded or called. All texts come from the worker: never markup, never believed."""

    kind: FailureKind
    type_name: str
    """The exception's type, such as `NameError`."""
    message: str
    line: int | None
    """The line of the learner's file, from 1."""
    traceback: str
    """The learner's own frames, as Python prints them."""
    tensors: str = ""
    """For tensors on several devices: those of the expression that failed, `x on cuda:0, self.mean on cpu`."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: object) -> Failure:
        """Read what a worker sent; raises `FrameError` for anything odd. Texts are cut to sane lengths."""
        if not isinstance(data, dict) or set(data) != {field.name for field in fields(cls)}:
            raise FrameError("this is not a failure")
        line = data["line"]
        if data["kind"] not in get_args(FailureKind) or not (line is None or (type(line) is int and line > 0)):
            raise FrameError("a failure of no known kind")
        texts = [data["type_name"], data["message"], data["traceback"], data["tensors"]]
        if not all(isinstance(text, str) for text in texts):
            raise FrameError("a failure without words")
        return cls(data["kind"], texts[0][:200], texts[1][:10_000], line, texts[2][:40_000], texts[3][:1000])


_MIXED = re.compile(
    r"on the same device|at least two devices|different from other tensors on|Input type .* should be the same"
)


def mixes_devices(type_name: str, message: str) -> bool:
    """True if an error says that tensors on several devices meet."""
    return type_name == "RuntimeError" and _MIXED.search(message[:LONGEST_MIXED]) is not None


@dataclass(frozen=True)
class GivenFault:
    """A fault of an exercise's `given.py`, as the worker that ran it tells. Believed of the author's solution only."""

    said: str
    """The exception's type and message."""
    frames: tuple[tuple[int, str], ...]
    """Line and function of each frame in `given.py`, outermost first."""

    @classmethod
    def from_json(cls, data: object) -> GivenFault | None:
        """Read what a worker sent; None for anything odd."""
        match data:
            case {"said": str(said), "frames": list(frames)} if all(
                isinstance(frame, list) and list(map(type, frame)) == [int, str] for frame in frames
            ):
                return cls(said[:2000], tuple((line, name[:200]) for line, name in frames[-20:]))
        return None


def signal_name(number: int) -> str:
    """What a signal is called that ended a process: `SIGSEGV`; `signal 40` for one that has no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


TICKET = "ticket"
"""The key of what each request reveals and its answer has to repeat."""
EVENTS = 500_000
"""Of one call: they take the judge 1.4 s to read."""
_EVENT_BYTES = 96
"""Of an event's numbers in JSON; 39 are usual."""
_EVENT_PARTS = 16
_VALUES_BYTES = 48 << 20
"""Of everything else in a header: 200,000 values, 4 Mi characters escaped, and the facts of the arguments."""
_VALUES_PARTS = 4 << 20
FILES_BYTES = 64 << 20
"""Of all files that a call wrote and that are brought back."""
KEPT_BYTES = 1 << 30
"""Of all answers to the calls of one run together: the judge keeps them until it has decided."""
MOST_NAMES = 50
"""Of what lies in a scratch folder."""
LONGEST_NAME = 120
"""Characters of each."""

SMALL = Bounds(header_bytes=1 << 20, parts=1 << 17, buffers=0, buffer_bytes=0, total_bytes=0)
"""Of answers without values: the longest is a failure."""


@dataclass(frozen=True)
class Sizes:
    """What one answer to a call may take."""

    result_bytes: int = 64 << 20
    """Of all tensors of a result together."""
    events: int = EVENTS
    """Of its trace."""

    @property
    def bounds(self) -> Bounds:
        """Of the frame."""
        return Bounds(
            header_bytes=_VALUES_BYTES + _EVENT_BYTES * self.events,
            parts=_VALUES_PARTS + _EVENT_PARTS * self.events,
            buffers=4096 + 256,
            buffer_bytes=max(self.result_bytes, FILES_BYTES),
            total_bytes=self.result_bytes + FILES_BYTES,
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Sizes:
        return cls(**data)


FILE_BYTES = 256 << 20
"""Of one file; `RLIMIT_FSIZE`."""
DATA_BYTES = 8 << 30
"""Of one process's private memory; `RLIMIT_DATA`, because `RLIMIT_AS` breaks CUDA builds of torch."""
OPEN_FILES = 1024
"""`RLIMIT_NOFILE`."""
TASKS = 1024
"""`RLIMIT_NPROC`, where a worker has a user namespace of its own: elsewhere it would count the user's whole desktop.

Above `THREADS`, so that who comes near it is told in the judge's words.
"""


def apply_limits(own_namespace: bool = False) -> None:
    """No core dumps, no huge files, no endless memory. For this process and all that it starts."""
    _at_most(resource.RLIMIT_CORE, 0)
    _at_most(resource.RLIMIT_FSIZE, FILE_BYTES)
    _at_most(resource.RLIMIT_DATA, DATA_BYTES)
    _at_most(resource.RLIMIT_NOFILE, OPEN_FILES)
    if own_namespace and _counts_by_namespace():
        _at_most(resource.RLIMIT_NPROC, TASKS)


def _counts_by_namespace() -> bool:
    """Linux 5.14 began to count a user's processes by user namespace; before, all of the user's were counted."""
    release = os.uname().release.split(".")
    return tuple(int(part) for part in release[:2] if part.isdigit()) >= (5, 14)


def _at_most(what: int, wanted: int) -> None:
    _, hard = resource.getrlimit(what)
    value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(what, (value, value))

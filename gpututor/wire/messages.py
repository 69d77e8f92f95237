"""What the judge and a worker say to each other, as plain data with a JSON form. No torch here.

The worker says `ready` once. Then, for each scenario: the judge sends `load`, the worker answers `loaded` or `failed`;
the judge sends `call` for each case, the worker answers `returned` or `failed`. The inputs of a case are only revealed
by its `call`. For timing, `load` says `observed: false`, and each `time` brings the inputs of many calls, which are
answered by one `timed`. `leave` ends the scenario, and is answered by `left`. Each answer repeats the `ticket` of its
request, see `gpututor.judge.conversation`, and says what was `changed` in the worker, see `gpututor.worker.integrity`.
The worker dies when the judge closes.
"""

from __future__ import annotations

import re
import signal
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from gpututor.wire.frames import FrameError

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


@dataclass(frozen=True)
class MachineSpec:
    """The machine that a run is to see."""

    scenario: str
    kind: str
    """`virtual`, `cpu`, `cuda`, `mps` or `xpu`."""
    index: int
    """Which real device; 0 on the virtual GPU."""
    gpus: int
    backends: tuple[str, ...]
    gpu: str
    memory_mib: int | None

    @property
    def device(self) -> str:
        """Where work belongs: `cuda:0`, or `cpu` when there is no GPU."""
        if self.kind == "virtual":
            return "cuda:0" if self.gpus and "cuda" in self.backends else "cpu"
        return "cpu" if self.kind == "cpu" else f"{self.kind}:{self.index}"

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "backends": list(self.backends)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> MachineSpec:
        return cls(**{**data, "backends": tuple(data["backends"])})


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

"""`torch.cuda.nvtx`, and `torch.cuda.profiler.start` and `stop`: ranges of the host's time, in the trace.

A range is recorded when it ends, with the line that began it. Marks are ranges of no length.
"""

from __future__ import annotations

import itertools
import threading
from typing import Any, NamedTuple

from gpututor.devices.recorder import Place
from gpututor.devices.virtual.machine import active_machine

CAPTURE = "cudaProfilerStart"
"""The range between `torch.cuda.profiler.start()` and `stop()`, to which Nsight Systems can be limited."""


class Open(NamedTuple):
    """A range that has begun."""

    name: str
    began: int
    """Nanoseconds of the machine."""
    place: Place | None
    """The line that began it; None if nothing is recorded."""

    @classmethod
    def now(cls, name: str) -> Open:
        machine = active_machine()
        recorder = machine.recorder
        return cls(name, machine.clock.host.now, recorder.place() if recorder.enabled else None)

    def end(self) -> None:
        machine = active_machine()
        # A clock of another machine, or another thread, may be behind.
        ended = max(self.began, machine.clock.host.now)
        machine.recorder.range(self.name, launched=self.began, end=ended, place=self.place)


class _Ranges(threading.local):
    def __init__(self) -> None:
        self.open: list[Open] = []


_of_thread = _Ranges()
_shared: dict[int | str, Open] = {}
"""The ranges of `range_start` by identity, and the capture's, of all threads."""
_identities = itertools.count(1)


_NO_DEPTH = -2
"""`NVTX_NO_PUSH_POP_TRACKING`: NVTX returns a depth only while a tool such as Nsight Systems is attached."""


def range_push(msg: Any) -> int:
    _of_thread.open.append(Open.now(_text("rangePushA", msg)))
    return _NO_DEPTH


def range_pop() -> int:
    if _of_thread.open:
        _of_thread.open.pop().end()
    return _NO_DEPTH


def range_start(msg: Any) -> int:
    """Open a range that need not nest, and may end in another thread; return its identity for `range_end`."""
    identity = next(_identities)
    _shared[identity] = Open.now(_text("rangeStartA", msg))
    return identity


def range_end(range_id: Any) -> None:
    """Close a range of `range_start`; a range that is not open causes no error, as in NVTX."""
    opened = _shared.pop(range_id, None)
    if opened is not None:
        opened.end()


def mark(msg: Any) -> None:
    Open.now(_text("markA", msg)).end()


def start_capture() -> None:
    """Open the capture's range, unless it is open."""
    if CAPTURE not in _shared:
        _shared[CAPTURE] = Open.now(CAPTURE)


def forget() -> None:
    """Forget all open ranges: they end with their machine, and are not recorded."""
    _of_thread.open.clear()
    _shared.clear()


def _text(function: str, msg: Any) -> str:
    """Return the name of a range. Raises pybind11's error for anything else."""
    if not isinstance(msg, str):
        raise TypeError(
            f"{function}(): incompatible function arguments. The following argument types are supported:\n"
            f"    1. (arg0: str)\n\nInvoked with: {msg!r}"
        )
    return msg

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
"""Name of the range between `torch.cuda.profiler.start()` and `stop()`; Nsight Systems can record only this range."""


class Open(NamedTuple):
    """A range that has begun."""

    name: str
    began: int
    """Nanoseconds on the machine's clock."""
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
"""Open ranges of all threads that need not nest: `range_start`'s by identity, and the profiler's by `CAPTURE`."""
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
    """Open the range of `torch.cuda.profiler`, unless it is open."""
    if CAPTURE not in _shared:
        _shared[CAPTURE] = Open.now(CAPTURE)


def forget() -> None:
    """Drop all open ranges without recording them, when their machine ends."""
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

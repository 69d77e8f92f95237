"""Work of the host that the modelled clock cannot price: NumPy, loops over values, C extensions, child processes.

The clock prices torch's calls. Between them a program may compute in other ways, for which nothing is known but how
long they really took. A real time never becomes part of a modelled one: it only tells that a model of the whole is
missing. What counts is processor time, so that a busy machine changes little.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from time import (  # bound here: inside a machine, those of `time` are its clock's
    perf_counter_ns,
    process_time_ns,
    thread_time_ns,
)

from gpututor.devices.virtual.machine import active_machine, is_on

SHORT_NS = 100_000
"""Between two operators: what Python itself takes there is part of the model."""
SLOW_NS = 1_000_000
"""An operator that takes longer may have been interrupted."""
_IMPORT_NS = 3_000_000
"""What importing one module takes: torch imports some of its own late."""
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


class Meter:
    """Real times of one thread: in operators, and between them."""

    __slots__ = ("between", "last", "line", "longest", "used", "within")

    def __init__(self) -> None:
        self.last = perf_counter_ns()
        """When it entered or left an operator."""
        self.used = thread_time_ns()
        """Processor time of the thread when it was last read."""
        self.clear()

    def clear(self) -> None:
        """Forget what was counted."""
        self.within = 0
        """In operators, in nanoseconds."""
        self.between = 0
        """In pauses that are not short."""
        self.longest = 0
        self.line: int | None = None
        """The program's line after the longest pause."""

    def pause(self, now: int) -> None:
        """Count the time since the last operator, which was long."""
        length = now - self.last - SHORT_NS
        self.between += length
        if length > self.longest and is_on():
            self.longest = length
            self.line = active_machine().recorder.place()[1]
        self.used = thread_time_ns()
        self.last = now

    def slow(self, length: int) -> int:
        """Give the processor time of an operator that took long: the thread may have waited for the processor."""
        before, self.used = self.used, thread_time_ns()
        return min(length, self.used - before)

    def resume(self) -> None:
        """Go on within an operator after the program's own code ran there."""
        now = perf_counter_ns()
        if now - self.last > SHORT_NS:
            self.pause(now)
        self.last = now


_meters: list[Meter] = []


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.meter = Meter()
        _meters.append(self.meter)


_of_thread = _OfThread()


def meter() -> Meter:
    """The meter of this thread."""
    return _of_thread.meter


@dataclass(frozen=True)
class Unpriced:
    """Work without a modelled price."""

    nanoseconds: int = 0
    """Of processor time."""
    line: int | None = None
    """The line before which most of it was, where that is known."""


class Watch:
    """Measures from its making to `read()`, for the thread that makes it and all that starts meanwhile."""

    def __init__(self) -> None:
        self._modules = len(sys.modules)
        self._children = _of_children()
        self._loaders = _loaders.count
        for one in _meters:
            one.clear()
        meter().resume()
        meter().clear()
        self._began = process_time_ns()

    def read(self) -> Unpriced:
        """What this process did besides operators, and its children if they were not those of a DataLoader."""
        mine = meter()
        mine.resume()
        used = process_time_ns() - self._began - sum(one.within for one in _meters)
        imports = _IMPORT_NS * max(0, len(sys.modules) - self._modules)
        own = max(0, min(mine.between, used) - imports)
        by_loader = _loaders.count > self._loaders
        children = 0 if by_loader else max(0, _of_children() - self._children)
        return Unpriced(own + children, mine.line)


def _of_children() -> int:
    """Processor time of this process's children so far, in nanoseconds: those that ended, and those that run."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = round((used.ru_utime + used.ru_stime) * 1e9)
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except (ChildProcessError, AttributeError):  # there are none; macOS has no such call
        return ended
    return ended + sum(map(_of_process, _running_children()))


def _running_children() -> list[str]:
    with contextlib.suppress(OSError):
        return [one for path in Path("/proc/self/task").glob("*/children") for one in path.read_text().split()]
    return []


def _of_process(number: str) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) * _TICK_NS
    return 0


class _Loaders:
    """How many processes DataLoaders forked: their queues carry the time of their work."""

    def __init__(self) -> None:
        self.count = 0

    def forked(self) -> None:
        frame = sys._getframe(1)
        while (back := frame.f_back) is not None:
            frame = back
            if frame.f_globals.get("__name__") == "torch.utils.data.dataloader":
                self.count += 1
                return


_loaders = _Loaders()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_parent=_loaders.forked)

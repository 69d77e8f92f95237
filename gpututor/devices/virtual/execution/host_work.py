"""Work of the host without a modelled price: NumPy, loops over values, C extensions, child processes.

The clock prices only torch's calls. Work between these calls is measured in real processor time, which a busy machine
hardly changes. The measured time is never added to the modelled time; it only shows how much the model leaves out.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import (
    perf_counter_ns,
    process_time_ns,
    thread_time_ns,
)  # imported by name: a machine replaces the functions of `time`

from gpututor.devices.virtual.machine import active_machine, is_on

SHORT_NS = 100_000
"""Longest pause between two operators that counts as Python's own time, which the model includes."""
SLOW_NS = 1_000_000
"""Duration of an operator from which its thread may have been interrupted."""
_IMPORT_NS = 3_000_000
"""Time to import one module: torch imports some of its modules late."""
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


class Meter:
    """Times of one thread, in operators and between them, in nanoseconds.

    Reading the thread's processor time takes too long to do it at each operator: only long pauses and slow operators
    read it. The real time since the last reading, minus the processor time, is how long the thread waited.
    """

    __slots__ = ("_read", "_used", "between", "last", "line", "longest", "waited", "within")

    def __init__(self) -> None:
        self.clear()
        self.restart()

    def clear(self) -> None:
        self.within = 0
        """Time in operators."""
        self.between = 0
        """Processor time in long pauses."""
        self.waited = 0
        """Time in long pauses for which the thread had no processor."""
        self.longest = 0
        self.line: int | None = None
        """Line of the program after the longest pause."""

    def restart(self) -> None:
        """Leave out the time since the last operator."""
        self.last = self._read = perf_counter_ns()
        """Time when the thread last entered or left an operator."""
        self._used = thread_time_ns()

    def pause(self, now: int) -> None:
        """Add the time since the last operator to the long pauses."""
        length = now - self.last - SHORT_NS
        waited = min(length, self._waited(now))
        self.between += length - waited
        self.waited += waited
        if length > self.longest and is_on():
            self.longest = length
            self.line = active_machine().recorder.place()[1]
        self.last = now

    def slow(self, length: int) -> int:
        """Return the processor time of a long operator that ends now."""
        return length - min(length, self._waited(perf_counter_ns()))

    def resume(self) -> None:
        """Continue within an operator after the program's own code ran in it."""
        now = perf_counter_ns()
        if now - self.last > SHORT_NS:
            self.pause(now)
        self.last = now

    def _waited(self, now: int) -> int:
        """Return the time since the last reading for which the thread had no processor."""
        used = thread_time_ns()
        waited = (now - self._read) - (used - self._used)
        self._read, self._used = now, used
        return max(0, waited)


_meters: list[Meter] = []


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.meter = Meter()
        _meters.append(self.meter)


_of_thread = _OfThread()


def meter() -> Meter:
    return _of_thread.meter


@contextlib.contextmanager
def not_counted() -> Iterator[None]:
    """Count the time inside the block as an operator's: the machine models it."""
    mine = meter()
    mine.resume()
    within, used = mine.within, thread_time_ns()
    try:
        yield
    finally:
        mine.within = within + thread_time_ns() - used
        mine.restart()


@dataclass(frozen=True)
class UnpricedWork:
    """Work without a modelled price."""

    nanoseconds: int = 0
    """Processor time."""
    line: int | None = None
    """Line of the first operator after the longest stretch of work; None if unknown."""


class Watch:
    """Measurement from its creation to `read()`, of the creating thread and the threads started since then."""

    def __init__(self) -> None:
        self._modules = len(sys.modules)
        self._children = _children_ns()
        self._forks, self._forking = loader_forks.number, loader_forks.nanoseconds
        for known in _meters:
            known.clear()
        meter().restart()
        self._process, self._thread = process_time_ns(), thread_time_ns()

    def read(self) -> UnpricedWork:
        """Return this process's work outside operators, and its children's unless a DataLoader forked."""
        mine = meter()
        mine.resume()
        # A thread without operators has no meter: its work counts as far as this thread waited in long pauses.
        others = process_time_ns() - self._process - (thread_time_ns() - self._thread)
        others -= sum(known.within for known in _meters if known is not mine)
        imports = _IMPORT_NS * max(0, len(sys.modules) - self._modules)
        forking = loader_forks.nanoseconds - self._forking
        own = max(0, mine.between + max(0, min(mine.waited, others)) - imports - forking)
        # The clock models a DataLoader's workers: its queues carry their times.
        by_loader = loader_forks.number > self._forks
        children = 0 if by_loader else max(0, _children_ns() - self._children)
        return UnpricedWork(own + children, mine.line)


def _children_ns() -> int:
    """Return the processor time of this process's children, ended and running, in nanoseconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = round((used.ru_utime + used.ru_stime) * 1e9)
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except (ChildProcessError, AttributeError):  # no children; macOS has no such call
        return total
    running: list[str] = []
    with contextlib.suppress(OSError):
        running = [pid for path in Path("/proc/self/task").glob("*/children") for pid in path.read_text().split()]
    for pid in running:
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += sum(map(int, fields[11:15])) * _TICK_NS
    return total


class _LoaderForks:
    """Processes that DataLoaders have forked. The memory of a large process takes 10 ms to fork, or more."""

    def __init__(self) -> None:
        self.number = 0
        self.nanoseconds = 0
        """Processor time of the forks in this process."""
        self._began = 0

    def before(self) -> None:
        self._began = process_time_ns()

    def after(self) -> None:
        """Count the fork if a DataLoader is among the callers."""
        frame = sys._getframe(0)
        while (back := frame.f_back) is not None:
            frame = back
            if frame.f_globals.get("__name__") == "torch.utils.data.dataloader":
                self.number += 1
                self.nanoseconds += process_time_ns() - self._began
                return


loader_forks = _LoaderForks()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=loader_forks.before, after_in_parent=loader_forks.after)

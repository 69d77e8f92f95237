"""Python's `time` and `timeit` on the modelled clock.

The file of the calling code decides. Learner code reads and moves the host clock of its thread. Python's own modules
and installed packages, including torch, get the real functions: they wait for processes, files and sockets. Modules
that measure time for a learner read the virtual clock: `timeit`, `torch.utils.benchmark` and `sched`. Progress bars
(tqdm) stay real.

The virtual clocks start at 0 when the machine is switched on. `time.time` starts at the whole second of that moment, so
that dates are today's. Until the year 2038, floats of that size are multiples of 1/4,194,304 s. A whole second is such
a multiple, so differences are the same in each run.
"""

from __future__ import annotations

import asyncio.events
import concurrent.futures.thread
import importlib.util
import multiprocessing.pool
import multiprocessing.process
import operator
import os
import sched
import site
import sys
import sysconfig
import threading
import time
import timeit
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import Enum
from types import CodeType, FrameType
from typing import Any

from gpututor.devices.virtual.clock.machine_clock import HostClocks
from gpututor.paths import PACKAGE


class Caller(Enum):
    """Kind of code that reads the clock."""

    LEARNER = "learner"
    STOPWATCH = "stopwatch"
    """Code that measures time for a learner."""
    LIBRARY = "library"


TIMED_CODE = ("<timeit-src>", "<magic-timeit>")
"""File names of the loops that `timeit` and IPython's `%timeit` generate."""
_ON_BEHALF = {
    id(function.__code__)
    for function in (
        threading.Thread.run,
        threading.Timer.run,
        concurrent.futures.thread._WorkItem.run,
        multiprocessing.process.BaseProcess.run,
        multiprocessing.pool.worker,  # type: ignore[attr-defined]
        multiprocessing.pool.mapstar,  # type: ignore[attr-defined]
        multiprocessing.pool.starmapstar,  # type: ignore[attr-defined]
        asyncio.events.Handle._run,
    )
}
"""Code of Python that calls functions on behalf of its caller, as in `Thread(target=time.sleep, args=(1,))`."""
_kinds: dict[str, Caller] = dict.fromkeys(TIMED_CODE, Caller.STOPWATCH)
"""Kind of each file seen so far."""


def on_behalf(function: Any) -> Any:
    """Decorate a function whose calls count as the learner's."""
    _ON_BEHALF.add(id(function.__code__))
    return function


def kind_of(code: CodeType) -> Caller:
    """Return the kind of the calling code."""
    kind = _kinds.get(code.co_filename)
    if kind is None:
        kind = _kinds[code.co_filename] = _kind_of_file(code.co_filename)
    return Caller.LEARNER if kind is Caller.LIBRARY and id(code) in _ON_BEHALF else kind


def is_learners(code: CodeType) -> bool:
    """Return True if time passes on the virtual clock while this code waits."""
    return kind_of(code) is not Caller.LIBRARY


def _folders(paths: Iterable[str | None]) -> tuple[str, ...]:
    """Return each folder and its real path, both with a separator at the end."""
    folders = {folder for path in paths if path for folder in (os.path.abspath(path), os.path.realpath(path))}
    return tuple(os.path.join(folder, "") for folder in folders)


_torch = importlib.util.find_spec("torch")
_INSTALLED = _folders(
    [
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
        *site.getsitepackages(),
        site.getusersitepackages(),
        os.path.dirname(_torch.origin) if _torch is not None and _torch.origin else None,
        str(PACKAGE),
    ]
)
_EXERCISES = _folders([str(PACKAGE / "exercises")])
_STOPWATCHES = (os.path.join("torch", "utils", "benchmark", ""), timeit.__file__, sched.__file__)


def is_installed(name: str) -> bool:
    """Return True if a file belongs to Python, to an installed package or to gpututor."""
    return name.startswith(("<frozen ", *_INSTALLED)) and not name.startswith(_EXERCISES)


def _kind_of_file(name: str) -> Caller:
    if not is_installed(name):
        return Caller.LEARNER
    return Caller.STOPWATCH if any(part in name for part in _STOPWATCHES) else Caller.LIBRARY


ROUND = 100
"""Nanoseconds that a round of `timeit` takes at least, about one call in Python. Plain Python costs nothing on the
virtual clock, so repeating until enough time has passed would never end."""
_LONGEST_SLEEP_NS = 2**63 - 1


class _Running:
    """Clocks that `time` reads; None while it is real."""

    host: HostClocks | None = None
    start_s: int = 0


@contextmanager
def virtual_time_of(host: HostClocks | None) -> Iterator[None]:
    """Make `time` read these clocks inside the block; None for the real ones."""
    before = _Running.host, _Running.start_s
    _Running.host, _Running.start_s = host, int(_REAL["time"]())
    try:
        yield
    finally:
        _Running.host, _Running.start_s = before


def virtual_host() -> HostClocks | None:
    """Return the clocks that `time` reads in this thread; None if it reads the real ones."""
    host = _Running.host
    return host if host is not None and host.running else None


class TimeFunction:
    """Replacement for a function of `time`. Like a builtin, it does not become a method in a class body."""

    def __init__(self, name: str) -> None:
        self.__name__ = self.__qualname__ = name
        self.__module__ = "time"
        self.__doc__ = _REAL[name].__doc__
        self._real = _REAL[name]

    def __repr__(self) -> str:
        return repr(self._real)

    def __reduce__(self) -> str:
        return self.__name__


class Clock(TimeFunction):
    """Replacement for `perf_counter` and the other clocks."""

    def __init__(self, name: str, *, since_1970: bool = False, of_the_processor: bool = False) -> None:
        super().__init__(name)
        self._counts = name.endswith("_ns")
        self._since_1970 = since_1970
        self._of_the_processor = of_the_processor

    def __call__(self, *arguments: Any, **named: Any) -> float:
        host = _Running.host
        if host is None or not host.running or arguments or named:
            return self._real(*arguments, **named)  # type: ignore[no-any-return]
        frame = sys._getframe(1)
        code = frame.f_code
        kind = kind_of(code)
        if kind is Caller.LIBRARY:
            return self._real()  # type: ignore[no-any-return]
        if kind is Caller.STOPWATCH:
            self._count_rounds(host, frame)
        back = frame.f_back
        now = host.read((id(code), frame.f_lasti, 0 if back is None else back.f_lasti))
        if self._of_the_processor:
            now -= host.slept
        start_s = _Running.start_s if self._since_1970 else 0
        # A sum in nanoseconds, divided, would be rounded to 256 ns depending on the start.
        return start_s * 1_000_000_000 + now if self._counts else start_s + now / 1e9

    def _count_rounds(self, host: HostClocks, frame: FrameType) -> None:
        """Advance the clock to at least `ROUND` per round when `timeit` reads its stop time."""
        timed: FrameType | None = frame
        if frame.f_code.co_filename not in TIMED_CODE:
            timed = frame.f_back  # torch.utils.benchmark calls through a function of its own
        if timed is None or timed.f_code.co_filename not in TIMED_CODE or timed.f_back is None:
            return
        began, rounds = timed.f_locals.get("_t0"), timed.f_back.f_locals.get("number")
        if isinstance(began, int | float) and isinstance(rounds, int):
            start_s = _Running.start_s if self._since_1970 else 0
            since = began - start_s * 1_000_000_000 if self._counts else round((began - start_s) * 1e9)
            host.wait_until(int(since) + rounds * ROUND)


class Sleep(TimeFunction):
    """Replacement for `time.sleep`: advances the thread's clock without waiting, and lets other threads run."""

    def __call__(self, *arguments: Any, **named: Any) -> None:
        host = _Running.host
        if host is not None and host.running and len(arguments) == 1 and not named:
            nanoseconds = _nanoseconds(arguments[0])
            if nanoseconds is not None and kind_of(sys._getframe(1).f_code) is not Caller.LIBRARY:
                host.sleep(nanoseconds)
                self._real(0)
                return
        self._real(*arguments, **named)


def _nanoseconds(seconds: Any) -> int | None:
    """Return None for a value that the real function rejects with its own message."""
    if not isinstance(seconds, float):
        try:
            seconds = operator.index(seconds)
        except TypeError:
            return None
    nanoseconds = seconds * 1_000_000_000
    return round(nanoseconds) if 0 <= nanoseconds <= _LONGEST_SLEEP_NS else None


_NAMES = ("perf_counter", "monotonic", "time", "process_time", "thread_time")
_REAL: dict[str, Any] = {
    name: getattr(time, name) for base in _NAMES for name in (base, base + "_ns") if hasattr(time, name)
} | {"sleep": time.sleep}

FUNCTIONS: dict[str, TimeFunction] = {
    name: Clock(name, since_1970=name.startswith("time"), of_the_processor=name.startswith(("process", "thread")))
    for name in _REAL
    if name != "sleep"
} | {"sleep": Sleep("sleep")}
"""Replacements for the functions of `time`, by name."""
PERF_COUNTER = FUNCTIONS["perf_counter"]
REAL_PERF_COUNTER = _REAL["perf_counter"]


_real_init: Any = timeit.Timer.__init__


def timer_init(
    self: timeit.Timer, stmt: Any = "pass", setup: Any = "pass", timer: Any = PERF_COUNTER, globals: Any = None
) -> None:
    """Replace `timeit.Timer.__init__`, whose default timer, bound at import, is the real clock."""
    _real_init(self, stmt, setup, PERF_COUNTER if timer is REAL_PERF_COUNTER else timer, globals)

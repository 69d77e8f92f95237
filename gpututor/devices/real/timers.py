"""Timers that find out afterwards when work ran on a real device, by events around each launch.

A device works asynchronously. An event goes into the stream before and after each launch. Once the device has passed
an event, its time on the device's clock can be read. An event that the host waits for relates that clock to the host's.

All times are whole nanoseconds since the recording began.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from gpututor.devices.real.backends import Backend

SWEEP = 1024
"""Launches between two checks for finished work."""
AT_MOST = 16 * SWEEP
"""Maximum number of launches with stored events; beyond it, the host waits for the older half of them."""
_TIES = 5
"""Number of comparisons of the two clocks; the fastest is used."""
_TIE_AGAIN_NS = 1_000_000_000
"""Age of a comparison after which the next wait repeats it: the clocks drift by some microseconds per second."""
_TIE_REACHES_NS = 8_000_000_000
"""Age of a tie after which a newer event replaces it: float32 milliseconds have steps of 1 µs beyond 8 s."""
Now = Callable[[], int]
SetTimes = Callable[[int, int, int], None]


class Lap:
    """A launch and its times."""

    __slots__ = ("closed", "end", "launched", "opened", "start", "stream")

    def __init__(self, launched: int, stream: int = 0) -> None:
        self.launched = launched
        self.stream = stream
        self.start = -1
        self.end = -1
        """The time at which the launch returned; for work on the CPU, the end of the work."""
        self.opened: Any = None
        self.closed: Any = None


class Stopwatch:
    """Base class: finds out when the work of one device ran. The base class itself measures only the host's times."""

    def __init__(self, now: Now) -> None:
        self._now = now

    def start(self) -> Lap:
        """Start a lap: work is about to be launched on this thread's current stream."""
        return Lap(self._now())

    def stop(self, lap: Lap, *, waited: bool = False) -> None:
        """Stop a lap: the work was launched, and is done if the host has `waited` for it."""
        lap.end = self._now()

    def drop(self, lap: Lap) -> None:
        """Forget a lap whose work could not be launched."""

    def keep(self, lap: Lap, row: int) -> None:
        """Store the lap's times in row `row` of the trace, once they are known."""

    def host_waited(self) -> None:
        """Read finished times cheaply: the host has just waited for the device."""

    def settle(self) -> None:
        """Wait for the device, and find out all times."""


class HostStopwatch(Stopwatch):
    """The stopwatch of the CPU, whose work is done when the call returns."""

    def stop(self, lap: Lap, *, waited: bool = False) -> None:
        lap.start, lap.end = lap.launched, self._now()


class DeviceStopwatch(Stopwatch):
    """The stopwatch of a device with events.

    After a device error, CUDA raises the error in every call. From then on no times are known, and the program's next
    call raises the error.
    """

    def __init__(
        self,
        backend: Backend,
        index: int,
        now: Now,
        set_times: SetTimes,
        *,
        timed: bool = True,
        is_capturing: Callable[[], bool] = lambda: False,
        at_most: int = AT_MOST,
    ) -> None:
        """`is_capturing` returns True if any thread captures a graph: meanwhile no event's time may be read."""
        super().__init__(now)
        self._backend = backend
        self._index = index
        self._set_times = set_times
        self._timed = timed
        self._is_capturing = is_capturing
        self._at_most = at_most
        self._sweep_at = SWEEP
        self._pending: deque[tuple[int, Lap]] = deque()
        self._spare: list[Any] = []
        self._lock = threading.Lock()
        self._tie: tuple[Any, int] | None = None
        self._tied = 0
        self._busy_until: dict[int, int] = {}

    def start(self) -> Lap:
        stream, number = self._backend.stream(self._index)
        opened = self._recorded(stream)
        lap = Lap(self._now(), number)
        lap.opened = opened
        return lap

    def stop(self, lap: Lap, *, waited: bool = False) -> None:
        lap.end = self._now()
        if lap.opened is not None and not waited:
            # An operator does not change the current stream.
            lap.closed = self._recorded(self._backend.stream(self._index)[0])
            if lap.closed is None:
                self.drop(lap)

    def drop(self, lap: Lap) -> None:
        self._spare += [event for event in (lap.opened, lap.closed) if event is not None]
        lap.opened = lap.closed = None

    def keep(self, lap: Lap, row: int) -> None:
        if lap.opened is None:
            return
        if row < 0:
            self.drop(lap)
            return
        self._pending.append((row, lap))
        if len(self._pending) >= self._at_most:
            self._wait_for_older_half()
        elif len(self._pending) >= self._sweep_at and not self._backend.elapsed_waits:
            self._sweep()
            self._sweep_at = len(self._pending) + SWEEP

    def host_waited(self) -> None:
        if self._timed and self._tie is not None and not self._is_capturing():
            self._sweep()
            if self._now() - self._tied > _TIE_AGAIN_NS:
                self._guarded(self._tie_clocks)

    def settle(self) -> None:
        if not self._pending or self._is_capturing():
            return
        self._guarded(lambda: self._backend.synchronize(self._index))
        self._sweep(wait=True)

    def _recorded(self, stream: Any) -> Any | None:
        """Return an event in that stream; None if no times are known."""
        if not self._timed or self._is_capturing():
            return None
        if self._tie is None:
            self._guarded(self._tie_clocks)
            if self._tie is None:
                self._timed = False
                return None
        try:
            event = self._spare.pop()
        except IndexError:
            event = self._backend.event()
        if event is not None:
            self._guarded(lambda: self._backend.record(event, stream))
        return event if self._timed else None

    def _tie_clocks(self) -> None:
        """Compare the clocks: an event on an idle device happens between two readings of the host's clock."""
        backend = self._backend
        backend.synchronize(self._index)
        stream, _ = backend.stream(self._index)
        best = -1
        for _ in range(_TIES):
            event = backend.event()
            if event is None:
                return
            before = self._now()
            backend.record(event, stream)
            backend.wait_for(event)
            took = self._now() - before
            if best < 0 or took < best:
                best, self._tie = took, (event, before + took // 2)
        self._tied = self._now()

    def _wait_for_older_half(self) -> None:
        if self._is_capturing():
            return
        lap = self._pending[len(self._pending) // 2][1]
        self._guarded(lambda: self._backend.wait_for(_last(lap)))
        self._sweep()
        self._sweep_at = len(self._pending) + SWEEP

    def _sweep(self, *, wait: bool = False) -> None:
        """Store the times of finished work, in launch order, up to the first unfinished work.

        If another thread is doing so, return, or `wait` for it.
        """
        if self._is_capturing() or not self._lock.acquire(blocking=wait):
            return
        try:
            self._guarded(self._read)
        finally:
            self._lock.release()

    def _read(self) -> None:
        pending = self._pending
        while pending:
            row, lap = pending[0]
            if not self._backend.is_reached(_last(lap)):
                return
            pending.popleft()
            self._finish(row, lap)

    def _finish(self, row: int, lap: Lap) -> None:
        start = self._time_of(lap.opened)
        end = lap.end if lap.closed is None else self._time_of(lap.closed)
        in_use = None
        if start is not None and end is not None:
            if lap.closed is not None and self._tie is not None and end - self._tie[1] > _TIE_REACHES_NS:
                self._tie, in_use = (lap.closed, end), lap.closed
            # An idle device passes the first event before the launch, and the tie is accurate to microseconds only.
            start = max(start, lap.launched, self._busy_until.get(lap.stream, 0))
            end = self._busy_until[lap.stream] = max(start, end)
            self._set_times(row, start, end)
        self._spare += [event for event in (lap.opened, lap.closed) if event is not None and event is not in_use]

    def _time_of(self, event: Any) -> int | None:
        assert self._tie is not None
        try:
            return self._tie[1] + round(self._backend.elapsed_ms(self._tie[0], event) * 1e6)
        except RuntimeError:
            return None  # this backend's events have no clock

    def _guarded(self, call: Callable[[], object]) -> None:
        """Call the device. After an error, no more times are known; the program's own next call raises the error."""
        try:
            call()
        except (RuntimeError, IndexError):  # IndexError: another thread had the error, and cleared `_pending`
            self._timed = False
            self._pending.clear()
            self._spare.clear()


def _last(lap: Lap) -> Any:
    """Return the event after which all times of the lap are known."""
    return lap.opened if lap.closed is None else lap.closed

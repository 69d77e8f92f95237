"""When work ran on a real device: before it ran, nobody knows; events around it tell afterwards.

A device works behind the host. Around each launch an event is put into its stream; once the device has come past it,
its time can be read, on the device's clock. That clock is tied to the host's by an event that the host waits for.

All times are whole nanoseconds since the recording began.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from gpututor.devices.real.backends import Backend

SWEEP = 1024
"""So many launches later it is looked which ones have run."""
AT_MOST = 16 * SWEEP
"""Launches whose events are kept at once: with more, the host waits for the oldest. Drivers queue about a thousand."""
_TIES = 5
"""The clocks are compared so often, and the quickest comparison is believed."""
_TIE_AGAIN_NS = 1_000_000_000
"""After so long the clocks are compared again, where the host has waited anyway: they drift some millionths."""
_TIE_REACHES_NS = 8_000_000_000
"""Events tell milliseconds as float32, whose step is a microsecond from 8 s on."""
Now = Callable[[], int]
SetTimes = Callable[[int, int, int], None]


class Lap:
    """One launch."""

    __slots__ = ("closed", "end", "launched", "opened", "start", "stream")

    def __init__(self, launched: int, stream: int = 0) -> None:
        self.launched = launched
        self.stream = stream
        self.start = -1
        self.end = -1
        """When the host was done with it; for the host's own work, when the work was done."""
        self.opened: Any = None
        self.closed: Any = None


class Stopwatch(Protocol):
    """Finds out when the work of one device ran."""

    def start(self) -> Lap:
        """Work is about to be launched on this thread's current stream."""

    def stop(self, lap: Lap, *, waited: bool = False) -> None:
        """It was launched; `waited` says that the host has waited for it, so that it is done."""

    def drop(self, lap: Lap) -> None:
        """It could not be launched."""

    def keep(self, lap: Lap, row: int) -> None:
        """Its times belong to that row of the trace, when they are known."""

    def rest(self) -> None:
        """The host has just waited for the device."""

    def settle(self) -> None:
        """Wait for the device, and find out all times."""


class LaunchStopwatch:
    """Of a device whose times nobody can tell; the host's are known."""

    def __init__(self, now: Now) -> None:
        self._now = now

    def start(self) -> Lap:
        return Lap(self._now())

    def stop(self, lap: Lap, *, waited: bool = False) -> None:
        lap.end = self._now()

    def drop(self, lap: Lap) -> None:
        """Nothing is kept of it."""

    def keep(self, lap: Lap, row: int) -> None:
        """No times will be known."""

    def rest(self) -> None:
        """Nothing is to be found out."""

    def settle(self) -> None:
        """Nothing is to be found out."""


class HostStopwatch(LaunchStopwatch):
    """Of the CPU, which is done when the call returns."""

    def stop(self, lap: Lap, *, waited: bool = False) -> None:
        lap.start, lap.end = lap.launched, self._now()


class DeviceStopwatch:
    """Of a device with events.

    After an error of the device, which CUDA then gives for every call, no more times are known; the program gets the
    error from its own next call.
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
        """`is_capturing` tells of captures in any thread: no event may then be asked for its time."""
        self._backend = backend
        self._index = index
        self._now = now
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
        self._spare += [one for one in (lap.opened, lap.closed) if one is not None]
        lap.opened = lap.closed = None

    def keep(self, lap: Lap, row: int) -> None:
        if lap.opened is None:
            return
        if row < 0:
            self.drop(lap)
            return
        self._pending.append((row, lap))
        if len(self._pending) >= self._at_most:
            self._wait_for_oldest()
        elif len(self._pending) >= self._sweep_at and not self._backend.elapsed_waits:
            self._sweep()
            self._sweep_at = len(self._pending) + SWEEP

    def rest(self) -> None:
        if self._timed and self._tie is not None and not self._is_capturing():
            self._sweep()
            if self._now() - self._tied > _TIE_AGAIN_NS:
                self._guarded(self._tie_clocks)

    def settle(self) -> None:
        if not self._pending or self._is_capturing():
            return
        self._guarded(lambda: self._backend.synchronise(self._index))
        self._sweep(wait=True)

    def _recorded(self, stream: Any) -> Any | None:
        """An event in that stream; None where no times are to be had."""
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
        """Compare the clocks: an event on an idle device happens between the host's two looks at its own clock."""
        backend = self._backend
        backend.synchronise(self._index)
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

    def _wait_for_oldest(self) -> None:
        if self._is_capturing():
            return
        lap = self._pending[len(self._pending) // 2][1]
        self._guarded(lambda: self._backend.wait_for(_last(lap)))
        self._sweep()
        self._sweep_at = len(self._pending) + SWEEP

    def _sweep(self, *, wait: bool = False) -> None:
        """Write down the times of what has run, in the order of the launches, up to the first that has not.

        Where another thread is at it, leave it to that one, or `wait`.
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
        kept = None
        if start is not None and end is not None:
            if lap.closed is not None and self._tie is not None and end - self._tie[1] > _TIE_REACHES_NS:
                self._tie, kept = (lap.closed, end), lap.closed
            # On an idle device the first event passes before the launch; and the tie is good to some microseconds only.
            start = max(start, lap.launched, self._busy_until.get(lap.stream, 0))
            end = self._busy_until[lap.stream] = max(start, end)
            self._set_times(row, start, end)
        self._spare += [one for one in (lap.opened, lap.closed) if one is not None and one is not kept]

    def _time_of(self, event: Any) -> int | None:
        assert self._tie is not None
        try:
            return self._tie[1] + round(self._backend.elapsed_ms(self._tie[0], event) * 1e6)
        except RuntimeError:
            return None  # this backend's events have no clock after all

    def _guarded(self, call: Callable[[], object]) -> None:
        """Call the device; after an error there are no more times, and the program hears of it by its own calls."""
        try:
            call()
        except (
            RuntimeError,
            IndexError,
        ):  # the second where another thread met the error, and dropped what was pending
            self._timed = False
            self._pending.clear()
            self._spare.clear()


def _last(lap: Lap) -> Any:
    """The event that says that its times are known."""
    return lap.opened if lap.closed is None else lap.closed

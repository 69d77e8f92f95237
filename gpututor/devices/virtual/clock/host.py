"""The host's clock: what each thread's own work, launches and waits would have taken. Imports no torch."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Any, NamedTuple

READING = 50
"""Nanoseconds that reading a clock takes, so that `while perf_counter() < end` ends."""
_SPIN = 1_000
"""A loop that does nothing but read the clock moves it by a thousandth of what it has waited: it ends soon."""
_LONGEST_READING = 1_000_000


class Stamp(NamedTuple):
    """When a thread of a machine did something that others wait for."""

    clocks: HostClocks
    """The machine's: a moment means nothing on another."""
    time: int


class HostClocks(threading.local):
    """One clock for each thread, in whole nanoseconds since the machine was switched on.

    A thread that is started begins at its parent's time; who waits for another goes on at the later of the two times.
    """

    now: int = 0
    running: bool = False
    """Whether this thread is on the machine. One that was started earlier, by others, is not."""
    slept: int = 0
    """How much of the time the thread slept: the processor was free."""
    latest: int = 0
    """The latest time of any work of the thread. A pool's thread goes back where a job began before it was free."""
    worked: int = 0
    """When the processor was last busy for the thread: waits and sleep do not count."""
    _run_began: int = 0
    _last_reading: int = -1
    _site: Hashable = None

    def __init__(self, threads: list[dict[str, Any]]) -> None:
        """Run in each thread at its first use, with the same list: its attributes become part of that."""
        self._threads = threads
        threads.append(self.__dict__)

    def begin(self, stamp: Stamp | None) -> None:
        """This thread is on the machine from now on; it goes on from `stamp`, where that is the machine's."""
        self.running = True
        if stamp is not None and stamp.clocks is self:
            self.now = stamp.time

    def spend(self, nanoseconds: int) -> None:
        """The thread worked for that long."""
        self.now = self.worked = self.now + nanoseconds

    def wait_until(self, moment: int) -> None:
        """The thread goes on at `moment`, if that is not past."""
        if moment > self.now:
            self.now = moment

    def sleep(self, nanoseconds: int) -> None:
        """The thread did nothing for that long."""
        self.now += nanoseconds
        self.slept += nanoseconds

    def read(self, site: Hashable = None) -> int:
        """The time, for a program that asks; asking takes a moment.

        `site` is the place in the program. Readings one after another at the same place, with nothing between, are a
        loop that waits: each moves the clock by 50 ns or by a thousandth of the time since the first one, up to 1 ms.
        """
        now = self.now
        step = READING
        if now == self._last_reading and site == self._site:
            step = max(READING, min((now - self._run_began) // _SPIN, _LONGEST_READING))
        else:
            self._run_began = now
            self._site = site
        self.now = self._last_reading = now + step
        return self.now

    def stamp(self) -> Stamp:
        """This thread's time, for those who will wait for what it did."""
        return Stamp(self, self.now)

    def meet(self, stamp: Stamp | None) -> None:
        """The thread got what another had ready at `stamp`; None, or one of another machine, changes nothing."""
        if stamp is not None and stamp.clocks is self and stamp.time > self.now:
            self.now = stamp.time

    def last_work(self) -> int:
        """When the processor was last busy for any thread, those that nobody has waited for included."""
        return max(int(one.get("worked", 0)) for one in [*self._threads])

    def end(self) -> Stamp:
        """When all that the thread did was done."""
        return Stamp(self, max(self.now, self.latest))

"""The host's clock: what each thread's own work, launches and waits would have taken. Imports no torch."""

from __future__ import annotations

import threading

READING = 50
"""Nanoseconds that reading a clock takes, so that `while perf_counter() < end` ends."""


class HostClocks(threading.local):
    """One clock for each thread, in whole nanoseconds since the machine was switched on.

    A thread that is started begins at its parent's time; who waits for another goes on at the later of the two times.
    """

    now: int = 0

    def spend(self, nanoseconds: int) -> None:
        """The thread worked for that long."""
        self.now += nanoseconds

    def wait_until(self, moment: int) -> None:
        """The thread goes on at `moment`, if that is not past."""
        if moment > self.now:
            self.now = moment

    def read(self) -> int:
        """The time, for a program that asks; asking takes a moment."""
        self.now += READING
        return self.now

"""How far a run is, in words."""

from __future__ import annotations

import time
from collections.abc import Callable

LONG_S = 3.0
"""From then on a run is long: it tells how long, and where it is."""


class RunProgress:
    """Of the run that is on."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._machine = (1, 1)
        self._call = (0, 0)
        self._pairs: tuple[int, int] | None = None

    def scenario_started(self, number: int, of: int) -> None:
        """Machine `number` of so many; 0 of them where that is not known."""
        self._machine, self._call, self._pairs = (number, of), (0, 0), None

    def call_began(self, number: int, of: int) -> None:
        self._call = (number, of)

    def pairs_timed(self, pairs: int, most: int) -> None:
        self._pairs = (pairs, most)

    @property
    def elapsed_s(self) -> float:
        return self._clock() - self._began

    @property
    def title(self) -> str:
        """The headline while it runs."""
        if self.elapsed_s < LONG_S:
            return "… Running. Esc stops it."
        return f"… Running for {_duration(int(self.elapsed_s))}. Esc stops it."

    @property
    def where(self) -> str:
        """At what it is: `machine 2 of 3, call 1 of 4`; empty while it is not long, or where nothing is known."""
        if self.elapsed_s < LONG_S:
            return ""
        parts = []
        if self._machine[1] > 1:
            parts.append(f"machine {self._machine[0]} of {self._machine[1]}")
        if self._pairs is not None:
            parts.append(f"timing pair {self._pairs[0]} of at most {self._pairs[1]}")
        elif self._call[1] > 1:
            parts.append(f"call {self._call[0]} of {self._call[1]}")
        return ", ".join(parts)


def _duration(seconds: int) -> str:
    minutes, rest = divmod(seconds, 60)
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"

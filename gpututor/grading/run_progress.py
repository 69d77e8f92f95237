"""How far a grading is, in words."""

from __future__ import annotations

import time
from collections.abc import Callable

from gpututor.grading.events import CallStarted, GradingEvent, RunStarted, TimingAdvanced

LONG_S = 3.0
"""From then on a grading is long: it tells how long, and where it is."""
LOADING_S = 1.0
"""A worker that was warm begins sooner; one that was not loads PyTorch first."""


class RunProgress:
    """Of the grading that is on."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._machine = (1, 1)
        self._call = (0, 0)
        self._pairs: tuple[int, int] | None = None
        self._has_begun = False

    def hear(self, event: GradingEvent) -> None:
        """What has happened."""
        match event:
            case RunStarted(_, _, number, of):
                self.scenario_started(number, of)
            case CallStarted(number, of):
                self.call_began(number, of)
            case TimingAdvanced(_, pairs, most):
                self.pairs_timed(pairs, most)
            case _:
                return

    def scenario_started(self, number: int, of: int) -> None:
        """The turn of machine `number` of so many."""
        self.begun()
        self._machine, self._call, self._pairs = (number, of), (0, 0), None

    def begun(self) -> None:
        """What is waited for is not that a worker starts."""
        self._has_begun = True

    def call_began(self, number: int, of: int) -> None:
        self._call = (number, of)

    def pairs_timed(self, pairs: int, most: int) -> None:
        self._pairs = (pairs, most)

    @property
    def elapsed_s(self) -> float:
        return self._clock() - self._began

    @property
    def is_loading(self) -> bool:
        """Whether a worker takes so long to start that it must be loading PyTorch."""
        return not self._has_begun and self.elapsed_s >= LOADING_S

    @property
    def is_long(self) -> bool:
        return self.elapsed_s >= LONG_S

    @property
    def duration(self) -> str:
        """`12 s`, `2 min 05 s`"""
        minutes, rest = divmod(int(self.elapsed_s), 60)
        return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"

    @property
    def where(self) -> str:
        """At what it is: `machine 2 of 3, call 1 of 4`; empty where there is only one of each."""
        parts = []
        if self._machine[1] > 1:
            parts.append(f"machine {self._machine[0]} of {self._machine[1]}")
        if self._pairs is not None:
            parts.append(f"timing pair {self._pairs[0]} of at most {self._pairs[1]}")
        elif self._call[1] > 1:
            parts.append(f"call {self._call[0]} of {self._call[1]}")
        return ", ".join(parts)

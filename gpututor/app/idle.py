"""Python's garbage collector, kept out of the moments in which a learner waits."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

START_AFTER_S = 2.0
"""When what comes after the first paint is there."""
LOOK_EVERY_S = 0.25
QUIET_S = 0.15
"""How long no key may have come before what is new is looked at: mostly less than 10 ms of work."""
LONG_QUIET_S = 20.0
"""How long no key may have come before all is looked at: a page that was left is 50,000 objects, 100 ms of work."""
_YOUNG, _MIDDLE, _OLD = 1000, 8, 10_000
"""When Python looks by itself: at what came since the step began, soon; at all, only if keys come for an hour."""


class IdleCollector:
    """Lets Python look for garbage when the learner reads, and not at what will stay."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last_input = clock()
        self._started = False
        self._looked_at_all = True
        """Whether nothing happened since all was looked at."""

    def start(self) -> None:
        """Take all that is there now for something that stays; collections then cost a tenth."""
        gc.freeze()
        gc.set_threshold(_YOUNG, _MIDDLE, _OLD)
        gc.enable()
        self._started = True

    def input_came(self) -> None:
        self._last_input = self._clock()
        self._looked_at_all = False

    def look(self) -> int | None:
        """Collect when it is quiet and there may be something; the oldest generation that was looked at."""
        quiet_s = self._clock() - self._last_input
        if not self._started or quiet_s < QUIET_S:
            return None
        if quiet_s >= LONG_QUIET_S and not self._looked_at_all:
            self._looked_at_all = True
            gc.collect()
            return 2
        youngest, middle, _ = gc.get_count()
        if not middle and youngest < _YOUNG // 2:
            return None
        gc.collect(1)
        return 1

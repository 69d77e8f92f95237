"""Python's garbage collector, kept out of the moments in which a learner waits."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

START_AFTER_S = 1.0
"""When what comes after the first paint is there."""
LOOK_EVERY_S = 0.5
QUIET_S = 1.0
"""How long no key may have come before memory is tidied up: a page that was left is 50,000 objects, 100 ms of work."""
_ENOUGH = 2
"""How many collections of the younger generations make one of the oldest worth while."""
_NEVER_BY_ITSELF = 500
"""Only if keys come for minutes without a pause does Python tidy up by itself."""


class IdleCollector:
    """Lets Python look for garbage when the learner reads, and not at what will stay."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last_input = clock()

    def start(self) -> None:
        """Take all that is there now for something that stays; collections then cost a tenth."""
        gc.freeze()
        young, middle, _ = gc.get_threshold()
        gc.set_threshold(young, middle, _NEVER_BY_ITSELF)
        gc.enable()

    def input_came(self) -> None:
        self._last_input = self._clock()

    def look(self) -> bool:
        """Collect when it is quiet and there may be something; whether it did."""
        if self._clock() - self._last_input < QUIET_S or gc.get_count()[2] < _ENOUGH:
            return False
        gc.collect()
        return True

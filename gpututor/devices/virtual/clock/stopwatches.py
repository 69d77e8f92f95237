"""`timeit` on the virtual clock. Imports no torch."""

from __future__ import annotations

import timeit
from typing import Any

from gpututor.devices.virtual.clock.reading import PERF_COUNTER, REAL_PERF_COUNTER

_real_init: Any = timeit.Timer.__init__


def timer_init(
    self: timeit.Timer, stmt: Any = "pass", setup: Any = "pass", timer: Any = PERF_COUNTER, globals: Any = None
) -> None:
    """Stands in for `timeit.Timer.__init__`, whose default is the real clock, as is that of all who call it."""
    _real_init(self, stmt, setup, PERF_COUNTER if timer is REAL_PERF_COUNTER else timer, globals)

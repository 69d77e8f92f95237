"""`time`, `timeit` and `asyncio`, for a machine whose time is virtual."""

from __future__ import annotations

from gpututor.devices.virtual.clock import event_loops, stopwatches
from gpututor.devices.virtual.clock.reading import FUNCTIONS, PERF_COUNTER
from gpututor.devices.virtual.patch_table.rows import each
from gpututor.devices.virtual.patches import Patch

TIME: tuple[Patch, ...] = (
    *each("time", "learner code reads and moves the host's clock", **FUNCTIONS),
    *each("timeit", "torch.utils.benchmark asks for it at each reading", default_timer=PERF_COUNTER),
    *each("timeit.Timer", "its default is the clock that was there at import", __init__=stopwatches.timer_init),
    *each(
        "asyncio.selector_events.BaseSelectorEventLoop",
        "a loop that waits for its timers would wait for ever: nobody else moves its clock",
        __init__=event_loops.loop_init,
        time=event_loops.loop_time,
        _run_once=event_loops.run_once,
    ),
)
"""Only for a machine with `virtual_time`."""

"""`asyncio` on the virtual clock: a loop's time is its thread's, and moves on where the loop would wait for a timer.

A loop that only its own timers can wake does not wait at all. One that has files or sockets to listen to, or work in
other threads, waits for real and moves the clock by the time that it was to wait. Loops that were made before the
machine was switched on keep real time, as do those of Windows that wait for completions. Imports no torch.
"""

from __future__ import annotations

import asyncio.selector_events
import concurrent.futures.thread
import threading
import weakref
from typing import Any

from gpututor.devices.virtual.clock.host import HostClocks
from gpututor.devices.virtual.clock.reading import virtual_host

_Loop = asyncio.selector_events.BaseSelectorEventLoop
_real_init: Any = _Loop.__init__
_real_time: Any = _Loop.time
_real_run_once: Any = _Loop._run_once  # type: ignore[attr-defined]
_clocks: weakref.WeakKeyDictionary[Any, HostClocks] = weakref.WeakKeyDictionary()
"""Of each loop that was made while `time` was virtual."""
jobs: weakref.WeakSet[Any] = weakref.WeakSet()
"""What was given to pools of threads and is not done: somebody may wait for it."""


def loop_init(self: Any, *arguments: Any, **named: Any) -> None:
    """Stands in for the making of a loop that waits with a selector."""
    host = virtual_host()
    if host is not None:
        _clocks[self] = host
    _real_init(self, *arguments, **named)


def loop_time(self: Any) -> float:
    """Stands in for `loop.time`."""
    host = _of(self)
    return float(_real_time(self)) if host is None else host.now / 1e9


def run_once(self: Any) -> None:
    """Stands in for one round of a loop: moves the clock to the next timer when there is nothing else to do."""
    host = _of(self)
    if host is not None and not self._ready and not self._stopping:
        moment = min((handle._when for handle in self._scheduled if not handle._cancelled), default=None)
        if moment is not None:
            left = max(0.0, moment - host.now / 1e9)
            # Whatever woke it is still there for the round itself: selectors forget nothing.
            woken = self._selector.select(0 if _only_timers_wake(self) else left)
            if not woken and not self._ready:
                host.sleep(max(0, round(moment * 1e9) - host.now))
    _real_run_once(self)


def _of(loop: Any) -> HostClocks | None:
    host = virtual_host()
    return host if host is not None and _clocks.get(loop) is host else None


def _only_timers_wake(loop: Any) -> bool:
    """Whether nothing outside can wake the loop: it listens to nothing but itself, and no other thread works."""
    if len(loop._selector.get_map()) > 1 or len(jobs):
        return False
    this, host = threading.current_thread(), virtual_host()
    return not any(one is not this and _works(one, host) for one in threading.enumerate())


def _works(thread: threading.Thread, host: HostClocks | None) -> bool:
    """Whether that thread was started by the program on this machine.

    A pool's are left out, whose jobs are counted, and those that `multiprocessing` keeps for itself.
    """
    start, target = getattr(thread, "virtual_start", None), getattr(thread, "_target", None)
    if start is None or start.clocks is not host or target is concurrent.futures.thread._worker:
        return False
    return not str(getattr(target, "__module__", "")).startswith("multiprocessing.")

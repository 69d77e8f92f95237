"""Where threads wait for each other: the waiter's clock goes on no earlier than what it waited for was ready.

Who makes something ready leaves the time there; learner code that got it moves on to that time. Libraries' own waits
change no clock: they often wait for files and processes, and in no fixed order. So it is with locks: which of two
threads comes first is the computer's affair.
"""

from __future__ import annotations

import heapq
import itertools
import sys
import threading
from types import FrameType
from typing import Any

from gpututor.devices.virtual.clock.callers import is_learners
from gpututor.devices.virtual.clock.host import HostClocks, Stamp
from gpututor.devices.virtual.clock.reading import virtual_host
from gpututor.devices.virtual.machine import active, is_on

_Event: Any = threading.Event
_Condition: Any = threading.Condition
_event_set, _event_wait, _event_is_set = _Event.set, _Event.wait, _Event.is_set
_condition_wait, _condition_wait_for = _Condition.wait, _Condition.wait_for
_condition_notify, _condition_enter = _Condition.notify, _Condition.__enter__
_barrier_wait: Any = threading.Barrier.wait
_acquire: Any = threading.Semaphore.acquire
_release: Any = threading.Semaphore.release
_bounded_release: Any = threading.BoundedSemaphore.release
_guard = threading.Lock()
_numbers = itertools.count()


def host_clock() -> HostClocks | None:
    """The clocks of the machine, for a thread that is on it."""
    if not is_on():
        return None
    host = active().clock.host
    return host if host.running else None


def stamp() -> Stamp | None:
    """This thread's time, to be left where others wait."""
    host = host_clock()
    return None if host is None else host.stamp()


def went_on(frame: FrameType, ready: Stamp | None) -> None:
    """The code of `frame` waited, and what it waited for was ready then."""
    host = host_clock()
    if host is not None and is_learners(frame.f_code):
        host.meet(ready)


def gave_up(frame: FrameType, timeout: float | None) -> None:
    """The code of `frame` waited that many seconds in vain."""
    host = virtual_host()
    if host is not None and timeout is not None and timeout > 0 and is_learners(frame.f_code):
        host.sleep(round(timeout * 1e9))


def event_set(self: Any) -> None:
    if not _event_is_set(self):
        self.virtual_ready = stamp()
    _event_set(self)


def event_wait(self: Any, timeout: float | None = None) -> bool:
    done = bool(_event_wait(self, timeout))
    if done:
        went_on(sys._getframe(1), getattr(self, "virtual_ready", None))
    else:
        gave_up(sys._getframe(1), timeout)
    return done


def event_is_set(self: Any) -> bool:
    done = bool(_event_is_set(self))
    if done:
        went_on(sys._getframe(1), getattr(self, "virtual_ready", None))
    return done


def condition_notify(self: Any, n: int = 1) -> None:
    self.virtual_ready = stamp()
    _condition_notify(self, n)


def condition_enter(self: Any) -> Any:
    """Who comes after a notification may find done what it would have waited for."""
    entered = _condition_enter(self)
    went_on(sys._getframe(1), getattr(self, "virtual_ready", None))
    return entered


def condition_wait(self: Any, timeout: float | None = None) -> Any:
    done = _condition_wait(self, timeout)
    if done:
        went_on(sys._getframe(1), getattr(self, "virtual_ready", None))
    else:
        gave_up(sys._getframe(1), timeout)
    return done


def condition_wait_for(self: Any, predicate: Any, timeout: float | None = None) -> Any:
    done = _condition_wait_for(self, predicate, timeout)
    if done:
        went_on(sys._getframe(1), getattr(self, "virtual_ready", None))
    else:
        gave_up(sys._getframe(1), timeout)
    return done


class _Arrivals:
    """One round of a barrier."""

    def __init__(self) -> None:
        self.count = 0
        self.latest: Stamp | None = None


def barrier_wait(self: Any, timeout: float | None = None) -> int:
    """All go on at the time of the last: the last on the virtual clock, whoever it was really."""
    mine = stamp()
    with _guard:
        round_ = self.__dict__.setdefault("virtual_round", _Arrivals())
        round_.count += 1
        if mine is not None and (round_.latest is None or mine.time > round_.latest.time):
            round_.latest = mine
        if round_.count >= self.parties:
            del self.virtual_round
    try:
        index = int(_barrier_wait(self, timeout))
    except threading.BrokenBarrierError:
        with _guard:
            self.__dict__.pop("virtual_round", None)
        raise
    went_on(sys._getframe(1), round_.latest)
    return index


def semaphore_acquire(self: Any, blocking: bool = True, timeout: float | None = None) -> bool:
    """Each permit that was given back has a time; who acquires gets the earliest."""
    got, permit = _permit(self, blocking, timeout)
    if got:
        went_on(sys._getframe(1), permit)
    else:
        gave_up(sys._getframe(1), timeout)
    return got


def semaphore_enter(self: Any) -> bool:
    got, permit = _permit(self, True, None)
    went_on(sys._getframe(1), permit)
    return got


def semaphore_release(self: Any, n: int = 1) -> None:
    _give_back(self, n, _release)


def bounded_release(self: Any, n: int = 1) -> None:
    _give_back(self, n, _bounded_release)


def _permit(self: Any, blocking: bool, timeout: float | None) -> tuple[bool, Stamp | None]:
    with _guard:
        permits = _permits(self)
    got = bool(_acquire(self, blocking, timeout))
    if not got:
        return False, None
    with _guard:
        return True, heapq.heappop(permits)[2] if permits else None


def _give_back(self: Any, n: int, real: Any) -> None:
    mine = stamp()
    given = [(0 if mine is None else mine.time, next(_numbers), mine) for _ in range(n if isinstance(n, int) else 0)]
    with _guard:
        permits = _permits(self)
        for one in given:
            heapq.heappush(permits, one)
    try:
        real(self, n)
    except (ValueError, TypeError):
        with _guard:
            permits[:] = [one for one in permits if one not in given]
            heapq.heapify(permits)
        raise


def _permits(self: Any) -> list[tuple[int, int, Stamp | None]]:
    """A heap: when each permit came back, a number, the stamp. Those that were there from the beginning have none."""
    found: list[tuple[int, int, Stamp | None]] | None = self.__dict__.get("virtual_permits")
    if found is None:
        found = self.virtual_permits = [(0, next(_numbers), None) for _ in range(self._value)]
    return found

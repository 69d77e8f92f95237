"""Pools of threads on the virtual clock: a job begins when it was given, or when one of the pool's workers is free.

Which thread takes a job really, and whether another one is done by then, depends on the computer. So a pool has as many
places as workers, and each job takes the place that is free first on the virtual clock.
"""

from __future__ import annotations

import concurrent.futures.thread
import heapq
import itertools
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from multiprocessing.pool import ApplyResult, ThreadPool
from typing import Any

from gpututor.devices.virtual.clock.callers import on_behalf
from gpututor.devices.virtual.clock.event_loops import jobs
from gpututor.devices.virtual.clock.host import HostClocks, Stamp
from gpututor.devices.virtual.machine import active, is_on
from gpututor.devices.virtual.parallel.handing_over import gave_up, host_clock, stamp
from gpututor.devices.virtual.tensors.names import ThreadModes, thread_has_modes

_real_item: Any = concurrent.futures.thread._WorkItem.run
_real_submit: Any = ThreadPoolExecutor.submit
_real_result: Any = Future.result
_real_exception: Any = Future.exception
_real_set_result: Any = Future.set_result
_real_set_exception: Any = Future.set_exception
_real_wait: Any = ApplyResult.wait
_guard = threading.Lock()
_numbers = itertools.count()
PATIENCE_S = 5.0
"""How long a job waits, for real, until it is certain when its turn is."""


def _modes() -> AbstractContextManager[Any]:
    """For a piece of work in a thread that may have been started before the machine was entered."""
    return ThreadModes() if is_on() and not thread_has_modes() else nullcontext()


class _Places:
    """When each of a pool's workers is free, on one machine's clock.

    Which is free first is certain when no job that runs can end before; until then the next job waits for real.
    """

    def __init__(self, clocks: HostClocks, workers: int) -> None:
        self.clocks = clocks
        self._free = [0] * max(1, workers)
        self._began: list[int] = []
        """When the jobs that run began."""
        self._waiting: set[int] = set()
        """The numbers of the jobs that were given and have not begun, where their order is known."""
        self._changed = threading.Condition()
        self._patient = True

    def expect(self, number: int) -> None:
        with self._changed:
            self._waiting.add(number)

    def take(self, given: int, number: int | None) -> int:
        """When a job begins that was given at that time; its place is taken from then on."""
        with self._changed:
            if self._patient:
                # A job may wait for one that waits here.
                self._patient = self._changed.wait_for(lambda: self._is_next(number), PATIENCE_S)
            began = max(given, heapq.heappop(self._free) if self._free else 0)
            self._began.append(began)
            self._is_gone(number)
            return began

    def leave(self, began: int, moment: int) -> None:
        with self._changed:
            self._began.remove(began)
            heapq.heappush(self._free, moment)
            self._changed.notify_all()

    def forget(self, number: int | None) -> None:
        """A job that will not run, or has."""
        with self._changed:
            self._is_gone(number)

    def _is_gone(self, number: int | None) -> None:
        self._waiting.discard(-1 if number is None else number)
        self._changed.notify_all()

    def _is_next(self, number: int | None) -> bool:
        if number is not None and self._waiting and min(self._waiting) < number:
            return False
        return bool(self._free) and all(self._free[0] <= began for began in self._began)


def _places_of(pool: Any, workers: int) -> _Places | None:
    host = host_clock()
    if host is None:
        return None
    places: _Places | None = pool.__dict__.get("virtual_places")
    if places is None or places.clocks is not host:
        places = pool.virtual_places = _Places(host, workers)
    return places


class _Job:
    """A function that was given to a pool, with all that it is called with later."""

    def __init__(self, function: Callable[..., Any], places: _Places | None, number: int | None = None) -> None:
        self._function = function
        self._places = places
        self._given = stamp()
        self._number = number
        if places is not None and number is not None:
            places.expect(number)
        self.latest: Stamp | None = None
        """When the last of its calls was done."""

    @on_behalf
    def __call__(self, *arguments: Any, **named: Any) -> Any:
        with _modes():
            places = self._places
            host = active().clock.host if is_on() else None
            if places is None or host is not places.clocks or self._given is None:
                return self._function(*arguments, **named)
            host.latest = max(host.latest, host.now)
            host.running = True
            began = host.now = places.take(self._given.time, self._number)
            try:
                return self._function(*arguments, **named)
            finally:
                places.leave(began, host.now)
                with _guard:
                    if self.latest is None or host.now > self.latest.time:
                        self.latest = host.stamp()

    def forget(self) -> None:
        """It has run, or was cancelled."""
        jobs.discard(self)
        if self._places is not None:
            self._places.forget(self._number)


def submit(self: Any, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Stands in for `ThreadPoolExecutor.submit`."""
    if not callable(fn):
        return _real_submit(self, fn, *args, **kwargs)
    job = _Job(fn, _places_of(self, self._max_workers), next(_numbers))
    jobs.add(job)
    return _real_submit(self, job, *args, **kwargs)


def run_item(self: Any, *context: Any) -> None:
    """Stands in for what a `ThreadPoolExecutor` runs for each call that it was given."""
    # 3.14 keeps the call as a tuple.
    job = getattr(self, "fn", None) or getattr(self, "task", (None,))[0]
    try:
        with _modes():
            _real_item(self, *context)
    finally:
        if isinstance(job, _Job):
            job.forget()


def future_set_result(self: Any, result: Any) -> None:
    self.virtual_ready = stamp()
    _real_set_result(self, result)


def future_set_exception(self: Any, exception: Any) -> None:
    self.virtual_ready = stamp()
    _real_set_exception(self, exception)


def future_result(self: Any, timeout: float | None = None) -> Any:
    """Stands in for `Future.result`: who has it goes on no earlier than it was there."""
    try:
        return _real_result(self, timeout)
    finally:
        _has_waited(self, timeout, sys._getframe(1))


def future_exception(self: Any, timeout: float | None = None) -> Any:
    try:
        return _real_exception(self, timeout)
    finally:
        _has_waited(self, timeout, sys._getframe(1))


def _has_waited(future: Any, timeout: float | None, frame: Any) -> None:
    host = host_clock()
    if host is not None and future.done():
        host.meet(getattr(future, "virtual_ready", None))
    else:
        gave_up(frame, timeout)


def giver_of_work(name: str) -> Any:
    """Stands in for a method of `multiprocessing.pool.ThreadPool` that gives a function to its threads."""
    real: Any = getattr(ThreadPool, name)

    @wraps(real)
    def give(self: Any, func: Any, *args: Any, **options: Any) -> Any:
        if not callable(func):
            return real(self, func, *args, **options)
        job = _Job(func, _places_of(self, self._processes))
        result = real(self, job, *args, **options)
        if isinstance(result, ApplyResult):
            result.virtual_job = job  # type: ignore[attr-defined]
            return result
        return _Results(result, job)

    return give


class _Results:
    """What `imap` gives: who has a result goes on no earlier than the latest of those that are done."""

    def __init__(self, real: Any, job: _Job) -> None:
        self._real = real
        self._job = job

    def __iter__(self) -> _Results:
        return self

    def __next__(self) -> Any:
        return self._met(next(self._real))

    def next(self, timeout: float | None = None) -> Any:
        return self._met(self._real.next(timeout))

    def _met(self, value: Any) -> Any:
        host = host_clock()
        if host is not None:
            host.meet(self._job.latest)
        return value


def result_wait(self: Any, timeout: float | None = None) -> None:
    """Stands in for `AsyncResult.wait`, which `get` calls."""
    _real_wait(self, timeout)
    host = host_clock()
    if host is not None and self.ready():
        job = getattr(self, "virtual_job", None)
        host.meet(None if job is None else job.latest)

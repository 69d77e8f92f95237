"""Threads on the modelled clock: start and join, locks, events, queues and executors.

The thread that makes something ready leaves the time there; learner code that got it moves on to that time. Waits
inside libraries change no clock: they often wait for files and processes, in no fixed order. The same holds for
locks: the computer decides which of two threads comes first. Other waits take real time, and the trace names the first.

A thread begins at the time of the thread that started it; who joins it goes on no earlier than it ended.

Which thread takes a job really, and whether another one is done by then, depends on the computer. So a pool has as many
places as workers, and each job takes the place that is free first on the virtual clock.
"""

from __future__ import annotations

import _queue
import _thread
import concurrent.futures.thread
import heapq
import itertools
import queue
import sys
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from multiprocessing.pool import ThreadPool
from types import FrameType
from typing import Any

from gpututor.devices.virtual.api.devices import lazy_init
from gpututor.devices.virtual.api.function_mode import ThreadModes, thread_has_modes
from gpututor.devices.virtual.clock.machine_clock import HostClocks, Stamp
from gpututor.devices.virtual.clock.python_time import is_learners, on_behalf, virtual_host
from gpututor.devices.virtual.machine import active_machine, is_on

UNFOLLOWED = "threads wait here by means the clock does not follow"
"""The range in the trace where learner code first waits in real time."""
_Event: Any = threading.Event
_event_set, _event_wait, _event_is_set = _Event.set, _Event.wait, _Event.is_set


def thread_clock() -> HostClocks | None:
    """Return the clocks of the machine, for a thread that is on it."""
    if not is_on():
        return None
    host = active_machine().clock.host
    return host if host.running else None


def current_timestamp() -> Stamp | None:
    """Return this thread's time, to be left where others wait."""
    host = thread_clock()
    return None if host is None else host.stamp()


def acquire_after(frame: FrameType, ready: Stamp | None) -> None:
    """Move the clock of the code of `frame`, which waited, to the time at which its object was ready."""
    host = thread_clock()
    if host is not None and is_learners(frame.f_code):
        host.meet(ready)


def wait_timed_out(frame: FrameType, timeout: float | None) -> None:
    """Move the clock of the code of `frame` by the seconds that it waited in vain."""
    host = virtual_host()
    if host is not None and timeout is not None and timeout > 0 and is_learners(frame.f_code):
        host.sleep(round(timeout * 1e9))


def event_set(self: Any) -> None:
    if not _event_is_set(self):
        self.virtual_ready = current_timestamp()
    _event_set(self)


def event_wait(self: Any, timeout: float | None = None) -> bool:
    done = bool(_event_wait(self, timeout))
    if done:
        acquire_after(sys._getframe(1), getattr(self, "virtual_ready", None))
    else:
        wait_timed_out(sys._getframe(1), timeout)
    return done


def event_is_set(self: Any) -> bool:
    done = bool(_event_is_set(self))
    if done:
        acquire_after(sys._getframe(1), getattr(self, "virtual_ready", None))
    return done


def real_wait(real: Callable[..., Any], learners_only: bool = True) -> Callable[..., Any]:
    """Wrap a function that waits in real time: the trace names the first call of learner code.

    `learners_only` is False for functions that Python's own code calls on behalf of the learner.
    """

    @wraps(real)
    def wait(*arguments: Any, **named: Any) -> Any:
        host = thread_clock()
        if host is not None and (not learners_only or is_learners(sys._getframe(1).f_code)):
            machine = active_machine()
            if not machine.waits_in_real_time:
                machine.waits_in_real_time = True
                machine.recorder.range(UNFOLLOWED, launched=host.now, end=host.now)
        return real(*arguments, **named)

    return wait


_Thread: Any = threading.Thread
_real_bootstrap, _real_thread_start, _real_join = _Thread._bootstrap_inner, _Thread.start, _Thread.join
_real_start: Any = _thread.start_new_thread


def thread_start(self: Any) -> None:
    """Stands in for `threading.Thread.start`."""
    self.virtual_start = current_timestamp()
    _real_thread_start(self)


def thread_bootstrap(self: Any) -> None:
    """Stands in for the start of every `threading.Thread`, those of pools included, in the new thread."""
    if not is_on():
        _real_bootstrap(self)
        return
    host = active_machine().clock.host
    host.begin(getattr(self, "virtual_start", None))
    with ThreadModes():
        try:
            _real_bootstrap(self)
        finally:
            self.virtual_end = host.end()


def thread_join(self: Any, timeout: float | None = None) -> None:
    """Stands in for `threading.Thread.join`."""
    _real_join(self, timeout)
    host = thread_clock()
    if host is not None and not self.is_alive():
        host.meet(getattr(self, "virtual_end", None))
    else:
        wait_timed_out(sys._getframe(1), timeout)


def start_new_thread(function: Callable[..., object], args: tuple[Any, ...], kwargs: Any = None, /) -> int:
    """Stands in for `_thread.start_new_thread`."""
    started: Stamp | None = current_timestamp()

    def on_the_machine() -> None:
        if not is_on():
            function(*args, **(kwargs or {}))
            return
        active_machine().clock.host.begin(started)
        with ThreadModes():
            function(*args, **(kwargs or {}))

    # With wrong arguments Python's own function says what is wrong, before a thread starts.
    right = callable(function) and isinstance(args, tuple) and isinstance(kwargs, dict | None)
    return int(
        _real_start(on_the_machine, ()) if right else _real_start(function, args, *([] if kwargs is None else [kwargs]))
    )


def start_cuda() -> None:
    """Stands in for `torch.cuda._lazy_init`, which C++ calls where no function mode has seen the device's name.

    Raises `RuntimeError` in a thread without the modes: what it asks for would be looked for on a real GPU. C++ calls
    until it has succeeded once in a process; from then on torch itself says that there is no such kernel.
    """
    lazy_init()
    if not thread_has_modes():
        raise RuntimeError(
            "This thread was started before the virtual GPU was switched on, so it does not see it. "
            "Start the thread inside the block of virtual_gpu(), or give the work to a pool of threads."
        )


_real_get: Any = queue.Queue.get
_real_put: Any = queue.Queue.put
_real_task_done: Any = queue.Queue.task_done
_real_queue_join: Any = queue.Queue.join
_ON_THE_WAY = (queue.__file__, __file__)


class _Ledger:
    """When the items of a queue were put and its slots were free. Used while the queue's own lock is held."""

    def __init__(self, items: list[Any], maxsize: int) -> None:
        self.put: dict[int, deque[Stamp | None]] = {}
        """By the identity of the item: a queue may have any order."""
        for item in items:
            self.put.setdefault(id(item), deque()).append(None)
        self.freed: deque[Stamp | None] = deque([None] * max(0, maxsize - len(items)))
        self.done: Stamp | None = None

    def taken(self, item: Any) -> Stamp | None:
        """When `item` had been put."""
        stamps = self.put.get(id(item))
        if not stamps:
            return None
        found = stamps.popleft()
        if not stamps:
            del self.put[id(item)]
        return found


def _ledger(self: Any) -> _Ledger:
    found: _Ledger | None = self.__dict__.get("virtual_ledger")
    if found is None:
        found = self.virtual_ledger = _Ledger(list(self.queue), self.maxsize)
    return found


def _asker() -> FrameType:
    """The code that uses the queue."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename in _ON_THE_WAY and frame.f_back is not None:
        frame = frame.f_back
    return frame


def with_times(kind: type[queue.Queue[Any]]) -> dict[str, Any]:
    """What stands in for `_put` and `_get` of a class of queues."""
    real_put: Any = kind._put
    real_get: Any = kind._get

    def put(self: Any, item: Any) -> None:
        ledger = _ledger(self)
        if self.maxsize > 0 and ledger.freed:
            acquire_after(_asker(), ledger.freed.popleft())
        real_put(self, item)
        ledger.put.setdefault(id(item), deque()).append(current_timestamp())

    def get(self: Any) -> Any:
        ledger = _ledger(self)
        item = real_get(self)
        acquire_after(_asker(), ledger.taken(item))
        if self.maxsize > 0:
            ledger.freed.append(current_timestamp())
        return item

    return {"_put": put, "_get": get}


def queue_get(self: Any, block: bool = True, timeout: float | None = None) -> Any:
    """Stands in for `Queue.get`: to wait in vain takes its time."""
    try:
        return _real_get(self, block, timeout)
    except queue.Empty:
        wait_timed_out(_asker(), timeout if block else None)
        raise


def queue_put(self: Any, item: Any, block: bool = True, timeout: float | None = None) -> None:
    """Stands in for `Queue.put`: to wait in vain takes its time."""
    try:
        _real_put(self, item, block, timeout)
    except queue.Full:
        wait_timed_out(_asker(), timeout if block else None)
        raise


def task_done(self: Any) -> None:
    mine = current_timestamp()
    with self.mutex:
        ledger = _ledger(self)
        if mine is not None and (ledger.done is None or mine.time > ledger.done.time):
            ledger.done = mine
    _real_task_done(self)


def queue_join(self: Any) -> None:
    """Who waits for all tasks goes on at the end of the last."""
    _real_queue_join(self)
    acquire_after(_asker(), _ledger(self).done)


class SimpleQueue(_queue.SimpleQueue):  # type: ignore[type-arg]
    """`queue.SimpleQueue` whose items bring the time at which they were put."""

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        super().put((current_timestamp(), item), block, timeout)

    def put_nowait(self, item: Any) -> None:
        super().put((current_timestamp(), item))

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        try:
            ready, item = super().get(block, timeout)
        except queue.Empty:
            wait_timed_out(_asker(), timeout if block else None)
            raise
        acquire_after(_asker(), ready)
        return item

    def get_nowait(self) -> Any:
        return self.get(block=False)


SimpleQueue.__module__ = "queue"


_real_item: Any = concurrent.futures.thread._WorkItem.run
_real_submit: Any = ThreadPoolExecutor.submit
_real_result: Any = Future.result
_real_exception: Any = Future.exception
_real_set_result: Any = Future.set_result
_real_set_exception: Any = Future.set_exception
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
        """The numbers of the jobs that were given and have not begun."""
        self._changed = threading.Condition()
        self._patient = True

    def expect(self, number: int) -> None:
        with self._changed:
            self._waiting.add(number)

    def take(self, given: int, number: int) -> int:
        """When a job begins that was given at that time; its place is taken from then on."""
        with self._changed:
            if self._patient:
                # A job may wait for one that waits here.
                self._patient = self._changed.wait_for(lambda: self._is_next(number), PATIENCE_S)
            began = max(given, heapq.heappop(self._free) if self._free else 0)
            self._began.append(began)
            self._remove(number)
            return began

    def leave(self, began: int, moment: int) -> None:
        with self._changed:
            self._began.remove(began)
            heapq.heappush(self._free, moment)
            self._changed.notify_all()

    def forget(self, number: int) -> None:
        """Remove a job that will not run, or has."""
        with self._changed:
            self._remove(number)

    def _remove(self, number: int) -> None:
        self._waiting.discard(number)
        self._changed.notify_all()

    def _is_next(self, number: int) -> bool:
        if self._waiting and min(self._waiting) < number:
            return False
        return bool(self._free) and all(self._free[0] <= began for began in self._began)


def _places_of(pool: Any, workers: int) -> _Places | None:
    host = thread_clock()
    if host is None:
        return None
    places: _Places | None = pool.__dict__.get("virtual_places")
    if places is None or places.clocks is not host:
        places = pool.virtual_places = _Places(host, workers)
    return places


class _Job:
    """A function that was given to a pool, with all that it is called with later."""

    def __init__(self, function: Callable[..., Any], places: _Places | None) -> None:
        self._function = function
        self._places = places
        self._given = current_timestamp()
        self._number = next(_numbers)
        if places is not None:
            places.expect(self._number)

    @on_behalf
    def __call__(self, *arguments: Any, **named: Any) -> Any:
        with _modes():
            places = self._places
            host = active_machine().clock.host if is_on() else None
            if places is None or host is not places.clocks or self._given is None:
                return self._function(*arguments, **named)
            host.latest = max(host.latest, host.now)
            host.running = True
            began = host.now = places.take(self._given.time, self._number)
            try:
                return self._function(*arguments, **named)
            finally:
                places.leave(began, host.now)

    def forget(self) -> None:
        """Remove it from its pool: it has run, or was cancelled."""
        if self._places is not None:
            self._places.forget(self._number)


def submit(self: Any, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Stands in for `ThreadPoolExecutor.submit`."""
    if not callable(fn):
        return _real_submit(self, fn, *args, **kwargs)
    return _real_submit(self, _Job(fn, _places_of(self, self._max_workers)), *args, **kwargs)


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
    self.virtual_ready = current_timestamp()
    _real_set_result(self, result)


def future_set_exception(self: Any, exception: Any) -> None:
    self.virtual_ready = current_timestamp()
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
    host = thread_clock()
    if host is not None and future.done():
        host.meet(getattr(future, "virtual_ready", None))
    else:
        wait_timed_out(frame, timeout)


def pool_method(name: str) -> Any:
    """Stand in for a method of `multiprocessing.pool.ThreadPool`: the function that it is given runs on the machine."""
    real: Any = getattr(ThreadPool, name)

    @wraps(real)
    def submit_to_pool(self: Any, func: Any, *args: Any, **options: Any) -> Any:
        return real(self, _on_the_machine(func) if callable(func) else func, *args, **options)

    return submit_to_pool


def _on_the_machine(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        with _modes():
            return function(*arguments, **named)

    on_behalf(call)
    return call

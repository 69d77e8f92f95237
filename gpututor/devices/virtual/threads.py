"""Threads on the modelled clock: start and join, locks, events, queues and executors.

The thread that makes an object ready stores its time in the object. Learner code that waits for the object continues at
that time at the earliest. Waits inside libraries change no clock: they often wait for files and processes, in no fixed
order. Nor do locks, because the operating system decides which of two threads comes first. Other waits take real time,
and the trace names the first.

A thread begins at the time of the thread that started it. A thread that joins it continues no earlier than its end.

The operating system decides which thread of a pool runs a job, and when. So the clock models a pool as slots, one for
each worker: a job takes the slot that is free first.
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

UNFOLLOWED = "threads wait here in a way that the virtual clock does not follow"
"""The name of the range in the trace at which learner code first waits in real time."""


def thread_clock() -> HostClocks | None:
    """Return the machine's clocks if this thread is on the machine."""
    if not is_on():
        return None
    host = active_machine().clock.host
    return host if host.running else None


def current_timestamp() -> Stamp | None:
    """Return this thread's time, for an object that other threads wait for."""
    host = thread_clock()
    return None if host is None else host.stamp()


def acquire_after(frame: FrameType, ready: Stamp | None) -> None:
    """Advance the clock to `ready`, when the object became ready, if learner code in `frame` waited for it."""
    host = thread_clock()
    if host is not None and is_learners(frame.f_code):
        host.wait_for(ready)


def wait_timed_out(frame: FrameType, timeout: float | None) -> None:
    """Advance the clock by the timeout, if learner code in `frame` waited for it."""
    host = virtual_host()
    if host is not None and timeout is not None and timeout > 0 and is_learners(frame.f_code):
        host.sleep(round(timeout * 1e9))


_Event: Any = threading.Event
_real_event_set, _real_event_wait, _real_event_is_set = _Event.set, _Event.wait, _Event.is_set


def event_set(self: Any) -> None:
    if not _real_event_is_set(self):
        self.virtual_ready = current_timestamp()
    _real_event_set(self)


def event_wait(self: Any, timeout: float | None = None) -> bool:
    is_set = bool(_real_event_wait(self, timeout))
    if is_set:
        acquire_after(sys._getframe(1), getattr(self, "virtual_ready", None))
    else:
        wait_timed_out(sys._getframe(1), timeout)
    return is_set


def event_is_set(self: Any) -> bool:
    is_set = bool(_real_event_is_set(self))
    if is_set:
        acquire_after(sys._getframe(1), getattr(self, "virtual_ready", None))
    return is_set


def real_wait(real: Callable[..., Any], learners_only: bool = True) -> Callable[..., Any]:
    """Wrap a function that waits in real time: the trace names the first call of learner code.

    `learners_only` is False for functions that Python's own code calls on behalf of the learner.
    """

    @wraps(real)
    def wait(*args: Any, **kwargs: Any) -> Any:
        host = thread_clock()
        if host is not None and (not learners_only or is_learners(sys._getframe(1).f_code)):
            machine = active_machine()
            if not machine.waits_in_real_time:
                machine.waits_in_real_time = True
                machine.recorder.range(UNFOLLOWED, launched=host.now, end=host.now)
        return real(*args, **kwargs)

    return wait


_Thread: Any = threading.Thread
_real_bootstrap, _real_thread_start, _real_join = _Thread._bootstrap_inner, _Thread.start, _Thread.join
_real_start: Any = _thread.start_new_thread


def thread_start(self: Any) -> None:
    self.virtual_start = current_timestamp()
    _real_thread_start(self)


def thread_bootstrap(self: Any) -> None:
    """Replace the bootstrap method of `threading.Thread`, which each new thread runs first, in pools too."""
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
    _real_join(self, timeout)
    host = thread_clock()
    if host is not None and not self.is_alive():
        host.wait_for(getattr(self, "virtual_end", None))
    else:
        wait_timed_out(sys._getframe(1), timeout)


def start_new_thread(function: Callable[..., object], args: tuple[Any, ...], kwargs: Any = None, /) -> int:
    started = current_timestamp()

    def run_on_machine() -> None:
        if not is_on():
            function(*args, **(kwargs or {}))
            return
        active_machine().clock.host.begin(started)
        with ThreadModes():
            function(*args, **(kwargs or {}))

    if callable(function) and isinstance(args, tuple) and isinstance(kwargs, dict | None):
        return int(_real_start(run_on_machine, ()))
    # Python's own function names the wrong argument, before a thread starts.
    return int(_real_start(function, args, *([] if kwargs is None else [kwargs])))


def start_cuda() -> None:
    """Stand in for `torch.cuda._lazy_init`, which C++ calls if no function mode has seen the device's name.

    Raises `RuntimeError` in a thread without the modes: C++ would look for a real GPU. C++ stops calling it once it has
    succeeded in a process. From then on, torch raises its own error about a missing kernel.
    """
    lazy_init()
    if not thread_has_modes():
        raise RuntimeError(
            "This thread was started before the virtual GPU was switched on, so the thread cannot use it. "
            "Start the thread inside the block of virtual_gpu(), or give the work to a pool of threads."
        )


_real_get: Any = queue.Queue.get
_real_put: Any = queue.Queue.put
_real_task_done: Any = queue.Queue.task_done
_real_queue_join: Any = queue.Queue.join


class _QueueTimes:
    """Times at which the items of a queue were put and its slots became free. Used under the queue's own lock."""

    def __init__(self, items: list[Any], maxsize: int) -> None:
        self.put: dict[int, deque[Stamp | None]] = {}
        """Times by the identity of the item, as a queue may have any order."""
        for item in items:
            self.put.setdefault(id(item), deque()).append(None)
        self.freed: deque[Stamp | None] = deque([None] * max(0, maxsize - len(items)))
        self.done: Stamp | None = None

    def pop(self, item: Any) -> Stamp | None:
        """Remove `item`; return the time at which it was put."""
        stamps = self.put.get(id(item))
        if not stamps:
            return None
        stamp = stamps.popleft()
        if not stamps:
            del self.put[id(item)]
        return stamp


def _times_of(self: Any) -> _QueueTimes:
    times: _QueueTimes | None = self.__dict__.get("virtual_times")
    if times is None:
        times = self.virtual_times = _QueueTimes(list(self.queue), self.maxsize)
    return times


def _queue_user() -> FrameType:
    """Return the nearest frame outside of this module and `queue`."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename in (queue.__file__, __file__) and frame.f_back is not None:
        frame = frame.f_back
    return frame


def with_times(kind: type[queue.Queue[Any]]) -> dict[str, Any]:
    """Return the replacements of `_put` and `_get` of a class of queues."""
    real_put: Any = kind._put
    real_get: Any = kind._get

    def put(self: Any, item: Any) -> None:
        times = _times_of(self)
        if self.maxsize > 0 and times.freed:
            acquire_after(_queue_user(), times.freed.popleft())
        real_put(self, item)
        times.put.setdefault(id(item), deque()).append(current_timestamp())

    def get(self: Any) -> Any:
        times = _times_of(self)
        item = real_get(self)
        acquire_after(_queue_user(), times.pop(item))
        if self.maxsize > 0:
            times.freed.append(current_timestamp())
        return item

    return {"_put": put, "_get": get}


def queue_get(self: Any, block: bool = True, timeout: float | None = None) -> Any:
    try:
        return _real_get(self, block, timeout)
    except queue.Empty:
        wait_timed_out(_queue_user(), timeout if block else None)
        raise


def queue_put(self: Any, item: Any, block: bool = True, timeout: float | None = None) -> None:
    try:
        _real_put(self, item, block, timeout)
    except queue.Full:
        wait_timed_out(_queue_user(), timeout if block else None)
        raise


def task_done(self: Any) -> None:
    now = current_timestamp()
    with self.mutex:
        times = _times_of(self)
        if now is not None and (times.done is None or now.time > times.done.time):
            times.done = now
    _real_task_done(self)


def queue_join(self: Any) -> None:
    _real_queue_join(self)
    acquire_after(_queue_user(), _times_of(self).done)


class SimpleQueue(_queue.SimpleQueue):  # type: ignore[type-arg]
    """`queue.SimpleQueue` that stores with each item the time at which it was put."""

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        super().put((current_timestamp(), item), block, timeout)

    def put_nowait(self, item: Any) -> None:
        self.put(item)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        try:
            ready, item = super().get(block, timeout)
        except queue.Empty:
            wait_timed_out(_queue_user(), timeout if block else None)
            raise
        acquire_after(_queue_user(), ready)
        return item

    def get_nowait(self) -> Any:
        return self.get(block=False)


SimpleQueue.__module__ = "queue"


_real_run_item: Any = concurrent.futures.thread._WorkItem.run
_real_submit: Any = ThreadPoolExecutor.submit
_numbers = itertools.count()
PATIENCE_S = 5.0
"""Real seconds that a job waits for its turn on the clock. After a timeout, the pool's later jobs do not wait."""


def _with_modes() -> AbstractContextManager[Any]:
    """Turn the modes on in a thread that may have been started before the machine was entered."""
    return ThreadModes() if is_on() and not thread_has_modes() else nullcontext()


class _Slots:
    """Times at which each of a pool's workers is free, on one machine's clock.

    The next job takes the slot that is free first. It really waits until no running job can free a slot earlier.
    """

    def __init__(self, clocks: HostClocks, workers: int) -> None:
        self.clocks = clocks
        self._free = [0] * max(1, workers)
        self._began: list[int] = []
        """Times at which the running jobs began."""
        self._waiting: set[int] = set()
        """Numbers of the jobs that were submitted and have not begun."""
        self._changed = threading.Condition()
        self._patient = True

    def add(self, number: int) -> None:
        with self._changed:
            self._waiting.add(number)

    def acquire(self, submitted: int, number: int) -> int:
        """Take a slot for a job that was submitted at that time; return the time at which the job begins."""
        with self._changed:
            if self._patient:
                # A timeout, because a running job may wait for a job that waits here.
                self._patient = self._changed.wait_for(lambda: self._is_next(number), PATIENCE_S)
            began = max(submitted, heapq.heappop(self._free) if self._free else 0)
            self._began.append(began)
            self.forget(number)
            return began

    def release(self, began: int, ended: int) -> None:
        with self._changed:
            self._began.remove(began)
            heapq.heappush(self._free, ended)
            self._changed.notify_all()

    def forget(self, number: int) -> None:
        """Remove a job that no longer waits."""
        with self._changed:
            self._waiting.discard(number)
            self._changed.notify_all()

    def _is_next(self, number: int) -> bool:
        if self._waiting and min(self._waiting) < number:
            return False
        return bool(self._free) and all(self._free[0] <= began for began in self._began)


def _slots_of(pool: Any, workers: int) -> _Slots | None:
    host = thread_clock()
    if host is None:
        return None
    slots: _Slots | None = pool.__dict__.get("virtual_slots")
    if slots is None or slots.clocks is not host:
        slots = pool.virtual_slots = _Slots(host, workers)
    return slots


class _Job:
    """A function that was submitted to a pool."""

    def __init__(self, function: Callable[..., Any], slots: _Slots | None) -> None:
        self._function = function
        self._slots = slots
        self._submitted = current_timestamp()
        self._number = next(_numbers)
        if slots is not None:
            slots.add(self._number)

    @on_behalf
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with _with_modes():
            slots = self._slots
            host = active_machine().clock.host if is_on() else None
            if slots is None or host is not slots.clocks or self._submitted is None:
                return self._function(*args, **kwargs)
            host.latest = max(host.latest, host.now)
            host.running = True
            began = host.now = slots.acquire(self._submitted.time, self._number)
            try:
                return self._function(*args, **kwargs)
            finally:
                slots.release(began, host.now)

    def forget(self) -> None:
        """Remove the job from its pool's slots: it has run, or was cancelled."""
        if self._slots is not None:
            self._slots.forget(self._number)


def submit(self: Any, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
    job = _Job(fn, _slots_of(self, self._max_workers)) if callable(fn) else fn
    return _real_submit(self, job, *args, **kwargs)


def run_item(self: Any, *context: Any) -> None:
    """Stand in for the method with which a `ThreadPoolExecutor` runs each submitted call."""
    # Python 3.14 stores the call as a tuple.
    job = getattr(self, "fn", None) or getattr(self, "task", (None,))[0]
    try:
        with _with_modes():
            _real_run_item(self, *context)
    finally:
        if isinstance(job, _Job):
            job.forget()


def _makes_ready(real: Any) -> Any:
    """Wrap a method that completes a future, so that it stores the time."""

    @wraps(real)
    def set_ready(self: Any, value: Any) -> None:
        self.virtual_ready = current_timestamp()
        real(self, value)

    return set_ready


def _waits_for_ready(real: Any) -> Any:
    """Wrap a method that waits for a future: the waiting thread continues once the future is ready on the clock."""

    @wraps(real)
    def wait(self: Any, timeout: float | None = None) -> Any:
        try:
            return real(self, timeout)
        finally:
            host = thread_clock()
            if host is not None and self.done():
                host.wait_for(getattr(self, "virtual_ready", None))
            else:
                wait_timed_out(sys._getframe(1), timeout)

    return wait


FUTURE_METHODS = {
    **{name: _makes_ready(getattr(Future, name)) for name in ("set_result", "set_exception")},
    **{name: _waits_for_ready(getattr(Future, name)) for name in ("result", "exception")},
}


def _submits(real: Any) -> Any:
    """Wrap a method of `multiprocessing.pool.ThreadPool` so that the submitted function runs on the machine."""

    @wraps(real)
    def submit_to_pool(self: Any, func: Any, *args: Any, **options: Any) -> Any:
        return real(self, _on_the_machine(func) if callable(func) else func, *args, **options)

    return submit_to_pool


def _on_the_machine(function: Any) -> Any:
    @on_behalf
    def call(*args: Any, **kwargs: Any) -> Any:
        with _with_modes():
            return function(*args, **kwargs)

    return call


POOL_METHODS = {
    name: _submits(getattr(ThreadPool, name)) for name in ("apply_async", "_map_async", "imap", "imap_unordered")
}

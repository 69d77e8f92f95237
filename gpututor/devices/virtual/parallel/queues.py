"""Queues: who gets an item goes on no earlier than it was put; who fills a slot, no earlier than it was free."""

from __future__ import annotations

import _queue
import queue
import sys
from collections import deque
from types import FrameType
from typing import Any

from gpututor.devices.virtual.clock.host import Stamp
from gpututor.devices.virtual.parallel.handing_over import gave_up, stamp, went_on

_real_get: Any = queue.Queue.get
_real_put: Any = queue.Queue.put
_real_task_done: Any = queue.Queue.task_done
_real_join: Any = queue.Queue.join
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
            went_on(_asker(), ledger.freed.popleft())
        real_put(self, item)
        ledger.put.setdefault(id(item), deque()).append(stamp())

    def get(self: Any) -> Any:
        ledger = _ledger(self)
        item = real_get(self)
        went_on(_asker(), ledger.taken(item))
        if self.maxsize > 0:
            ledger.freed.append(stamp())
        return item

    return {"_put": put, "_get": get}


def queue_get(self: Any, block: bool = True, timeout: float | None = None) -> Any:
    """Stands in for `Queue.get`: to wait in vain takes its time."""
    try:
        return _real_get(self, block, timeout)
    except queue.Empty:
        gave_up(_asker(), timeout if block else None)
        raise


def queue_put(self: Any, item: Any, block: bool = True, timeout: float | None = None) -> None:
    """Stands in for `Queue.put`: to wait in vain takes its time."""
    try:
        _real_put(self, item, block, timeout)
    except queue.Full:
        gave_up(_asker(), timeout if block else None)
        raise


def task_done(self: Any) -> None:
    mine = stamp()
    with self.mutex:
        ledger = _ledger(self)
        if mine is not None and (ledger.done is None or mine.time > ledger.done.time):
            ledger.done = mine
    _real_task_done(self)


def queue_join(self: Any) -> None:
    """Who waits for all tasks goes on at the end of the last."""
    _real_join(self)
    went_on(_asker(), _ledger(self).done)


class SimpleQueue(_queue.SimpleQueue):  # type: ignore[type-arg]
    """`queue.SimpleQueue` whose items bring the time at which they were put."""

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        super().put((stamp(), item), block, timeout)

    def put_nowait(self, item: Any) -> None:
        super().put((stamp(), item))

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        try:
            ready, item = super().get(block, timeout)
        except queue.Empty:
            gave_up(_asker(), timeout if block else None)
            raise
        went_on(_asker(), ready)
        return item

    def get_nowait(self) -> Any:
        return self.get(block=False)


SimpleQueue.__module__ = "queue"

"""Pools by stream, private pools of graphs, and memory that another stream still uses (CUDACachingAllocator.cpp).

Freed memory returns to the stream that allocated it: work there comes after the last use, without an event. After
`record_stream`, it returns only when the other streams have done the work that they had at the time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from gpututor.devices.virtual.clock.timeline import EventMarker
from gpututor.devices.virtual.memory.events import AllocationLog
from gpututor.devices.virtual.memory.pool import SMALL_SIZE, Block, Pool

PoolId = tuple[int, int]


class StreamPools:
    """The pools of each stream, by its number: one for small and one for large allocations."""

    __slots__ = ("_by_stream", "_max_split_bytes", "pool_id")

    def __init__(self, pool_id: PoolId = (0, 0)) -> None:
        self.pool_id = pool_id
        """The number of a private pool, as `torch.cuda.memory_snapshot` shows it; zeros for the general one."""
        self._by_stream: dict[int, tuple[Pool, Pool]] = {}
        self._max_split_bytes: int | None = None

    def of(self, stream: int, size_bytes: int) -> Pool:
        """Return the pool for an allocation of a stream."""
        pair = self._by_stream.get(stream) or self.pair(stream)
        return pair[size_bytes > SMALL_SIZE]

    def pair(self, stream: int) -> tuple[Pool, Pool]:
        """Return a stream's pools, for small and for large allocations."""
        pair = self._by_stream.get(stream)
        if pair is None:
            pair = self._by_stream[stream] = Pool(True, stream, self.pool_id), Pool(False, stream, self.pool_id)
            for pool in pair:
                pool.max_split_bytes = self._max_split_bytes
        return pair

    def all(self) -> list[Pool]:
        return [pool for pair in self._by_stream.values() for pool in pair]

    def limit_splits(self, most: int | None) -> None:
        """Do not split blocks of at least `most` bytes; None for no limit."""
        self._max_split_bytes = most
        for pool in self.all():
            pool.max_split_bytes = most


class GraphPool(StreamPools):
    """Segments of one graph, or of several graphs that share them."""

    __slots__ = ("graphs", "is_captured")

    def __init__(self, pool_id: PoolId) -> None:
        super().__init__(pool_id)
        self.graphs = 0
        """Number of live graphs and `MemPool`s; at 0, idle segments can be returned to the driver."""
        self.is_captured = False
        """True if a capture has used it."""


class GraphPools:
    """Private pools of one GPU, including the pool of the current capture."""

    __slots__ = ("_taken_by", "by_id", "capturing")

    def __init__(self) -> None:
        self.by_id: dict[PoolId, GraphPool] = {}
        self.capturing: GraphPool | None = None
        self._taken_by: Callable[[], bool] = bool

    def open(self, pool_id: PoolId) -> GraphPool:
        """Return that pool, made at its first use, with one more user: a graph or a `MemPool`."""
        pool = self.by_id.setdefault(pool_id, GraphPool(pool_id))
        pool.graphs += 1
        return pool

    def begin(self, pool_id: PoolId, taken_by: Callable[[], bool]) -> None:
        """Allocate from that pool while `taken_by()` is True, until `end`."""
        self.capturing, self._taken_by = self.open(pool_id), taken_by
        self.capturing.is_captured = True

    def end(self) -> None:
        self.capturing, self._taken_by = None, bool

    def chosen(self) -> GraphPool | None:
        """Return the pool for this thread's allocations; None for the general pool."""
        return self.capturing if self.capturing is not None and self._taken_by() else None

    def is_captured(self, pool_id: PoolId) -> bool:
        """Return True if a capture has used that pool; False for the general pool. Takes no lock."""
        pool = self.by_id.get(pool_id)
        return pool is not None and pool.is_captured

    def close(self, pool_id: PoolId) -> None:
        """Count the end of a graph. Takes no lock: destructors call it."""
        pool = self.by_id.get(pool_id)
        if pool is not None:
            pool.graphs -= 1

    def all(self) -> list[Pool]:
        return [part for pool in self.by_id.values() for part in pool.all()]

    def unused(self) -> list[Pool]:
        """Return the pools without live graphs; drop pools without memory."""
        for key, pool in list(self.by_id.items()):
            if pool.graphs <= 0 and not sum(part.reserved for part in pool.all()):
                del self.by_id[key]
        return [part for pool in self.by_id.values() if pool.graphs <= 0 for part in pool.all()]


@dataclass(slots=True)
class Held:
    block: Block
    size: int
    streams: tuple[int, ...]
    events: list[EventMarker] | None = None
    """The events of the streams; None until they are recorded."""


class PendingFrees:
    """Freed blocks that streams passed to `record_stream` still use (`insert_events`, `process_events`)."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held: list[Held] = []

    def add(self, block: Block, size: int, streams: Collection[int]) -> None:
        block.is_pending = True
        self.held.append(Held(block, size, tuple(streams)))

    def released(self, log: AllocationLog, *, wait: bool = False) -> list[tuple[Block, int]]:
        """Record the events that are missing; return (block, size) of those whose events are reached.

        With `wait`, the host waits for all of them.
        """
        done, held = [], []
        for entry in self.held:
            if entry.events is None:
                entry.events = [log.mark(stream) for stream in entry.streams]
            if wait:
                for mark in entry.events:
                    log.wait_for(mark)
            if wait or all(log.is_reached(mark) for mark in entry.events):
                entry.block.is_pending = False
                done.append((entry.block, entry.size))
            else:
                held.append(entry)
        self.held = held
        return done

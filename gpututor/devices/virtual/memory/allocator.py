"""The caching allocator of one GPU, and its private pools for graphs.

As c10/cuda/CUDACachingAllocator.cpp keeps private pools: a replay writes where the capture did, so nobody else may get
that memory while the graph lives. Within the capture, what was freed is used again.

Segments are asked from the driver, kept and cut into blocks as c10/cuda/CUDACachingAllocator.cpp does it. One thing
differs: where CUDA does not split off a tail of up to 1 MiB and counts it as allocated, here the tail is reserved
only, so that the allocated bytes are always those of the live storages, each rounded up to 512.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from gpututor.devices.virtual import cuda_errors
from gpututor.devices.virtual.clock.machine_clock import Key
from gpututor.devices.virtual.clock.timeline import Task
from gpututor.devices.virtual.memory import events
from gpututor.devices.virtual.memory.events import AllocationLog, Moment
from gpututor.devices.virtual.memory.pool import GRANULE, ROUND_LARGE, SMALL_SIZE, Block, Pool, Statistics, segment_size

PoolId = tuple[int, int]


class GraphPool:
    """The segments of one graph, or of several that share them."""

    __slots__ = ("graphs", "large", "small")

    def __init__(self) -> None:
        self.small, self.large = Pool(is_small=True), Pool(is_small=False)
        self.graphs = 0
        """How many graphs hold it; with none left, its idle segments can go back to the driver."""


class GraphPools:
    """All of one GPU, and which of them takes what is allocated now."""

    __slots__ = ("_taken_by", "by_id", "capturing")

    def __init__(self) -> None:
        self.by_id: dict[PoolId, GraphPool] = {}
        self.capturing: GraphPool | None = None
        self._taken_by: Callable[[], bool] = bool

    def begin(self, pool_id: PoolId, taken_by: Callable[[], bool]) -> None:
        """From now on that pool takes what is allocated, where `taken_by` says that a capture does."""
        pool = self.by_id.setdefault(pool_id, GraphPool())
        pool.graphs += 1
        self.capturing, self._taken_by = pool, taken_by

    def end(self) -> None:
        self.capturing, self._taken_by = None, bool

    def chosen(self) -> GraphPool | None:
        """The pool for what is allocated now by this thread; None for that of all."""
        return self.capturing if self.capturing is not None and self._taken_by() else None

    def leave(self, pool_id: PoolId) -> None:
        """A graph is gone. Takes no lock: destructors call it."""
        pool = self.by_id.get(pool_id)
        if pool is not None:
            pool.graphs -= 1

    def all(self) -> list[Pool]:
        return [part for pool in self.by_id.values() for part in (pool.small, pool.large)]

    def left(self) -> list[Pool]:
        """The pools that no graph holds; those without memory are forgotten."""
        for key, pool in list(self.by_id.items()):
            if pool.graphs <= 0 and not pool.small.reserved + pool.large.reserved:
                del self.by_id[key]
        return [part for pool in self.by_id.values() if pool.graphs <= 0 for part in (pool.small, pool.large)]


_FIRST_ADDRESS = 0x7F00_0000_0000
_BETWEEN_GPUS = 1 << 38


class _OfThread(threading.local):
    writer: Task | None = None
    """The launch that writes what this thread allocates next; None where nothing does."""


class CachingAllocator:
    """The caching allocator of one GPU; all figures are bytes unless they say otherwise.

    Storages are freed wherever Python's garbage collector runs, even in the middle of an allocation: `leave` only
    notes what is free, in one step that nothing can interrupt, and the next allocation or question settles it.
    """

    __slots__ = (
        *("_freed", "_lock", "_next_address", "fraction", "index", "large", "small", "statistics", "total"),
        *("graphs", "of_thread", "values_on_host", "watch"),
    )

    def __init__(self, index: int, total: int) -> None:
        self.index = index
        self.total = total
        self.fraction = 1.0
        """The share of the total that this process may use."""
        self.small, self.large = Pool(is_small=True), Pool(is_small=False)
        self.graphs = GraphPools()
        self.statistics = Statistics()
        self.watch: AllocationLog | None = None
        """Who writes down what happens."""
        self.values_on_host = True
        """Whether what is stored here takes as much of the host's memory."""
        self.of_thread = _OfThread()
        """What is different in each thread: another's launches write nothing of this one's."""
        self._freed: deque[tuple[Block, int, Moment | None]] = deque()
        self._lock = threading.Lock()
        self._next_address = _FIRST_ADDRESS + index * _BETWEEN_GPUS

    def take(self, requested: int) -> Block:
        """Memory for a storage of `requested` bytes (more than 0); raises CUDA's out-of-memory error."""
        size = -(-requested // GRANULE) * GRANULE
        pools: CachingAllocator | GraphPool = self
        if self.graphs.capturing is not None:
            pools = self.graphs.chosen() or self
        pool = pools.small if size <= SMALL_SIZE else pools.large
        with self._lock:
            if self._freed:
                self._settle()
            span = pool.take(size)
            if span is None:
                self._grow(pool, size)
                span = pool.take(size)
                assert span is not None
            span.requested = requested
            self.statistics.note(pool, size, requested)
            watch = self.watch
            span.row = -1 if watch is None else watch.taken(size, self._in_use, self.of_thread.writer)
        return span

    def leave(self, span: Block, size: int, stream: int) -> None:
        """A storage of `size` bytes (a multiple of 512) is gone, whose memory `stream` gets back."""
        self._freed.append((span, size, None if self.watch is None else self.watch.moment(stream)))

    def expect(self, requested: int) -> None:
        """Raises CUDA's out-of-memory error if a storage of that size would not fit; takes nothing.

        Raises `MemoryError` where it would fit on the GPU, but its values not in this machine's memory.
        """
        size = -(-requested // GRANULE) * GRANULE
        pool = self.small if size <= SMALL_SIZE else self.large
        with self._lock:
            self._settle()
            fits_now = bool(pool.free) and pool.free[-1][0] >= size
            idle = self.small.idle_bytes + self.large.idle_bytes
            if not fits_now and segment_size(size) > self.limit - self.reserved + idle:
                self._release_idle()
                raise self._out_of_memory(size)
        if self.values_on_host:
            events.expect(requested)

    def expect_all(self, sizes: list[int]) -> None:
        """The same for several new storages: each has to fit, and so has their sum."""
        for size in sizes:
            self.expect(size)
        if len(sizes) > 1 and sum(sizes) > self.limit - self.allocated:
            with self._lock:
                raise self._out_of_memory(max(sizes))

    def figures(self) -> dict[str, Any]:
        """All figures, as `torch._C._cuda_memoryStats` nests them."""
        with self._lock:
            self._settle()
            return self.statistics.as_nested_dict()

    def begin_peaks(self) -> None:
        """Start `peak_of_call` from what is held now; the program's meters do not change."""
        with self._lock:
            self._settle()
            self.statistics.begin_peaks()

    def reset_peaks(self) -> None:
        with self._lock:
            self._settle()
            self.statistics.reset_peaks()

    def reset_accumulated(self) -> None:
        with self._lock:
            self._settle()
            self.statistics.reset_accumulated()

    @property
    def peak_allocated(self) -> int:
        with self._lock:
            self._settle()
            return self.statistics.peak_allocated

    @property
    def peak_of_call(self) -> int:
        """The most allocated since `begin_peaks`, or since the program reset its meters."""
        with self._lock:
            self._settle()
            return self.statistics.peak_of_call

    def empty_cache(self) -> None:
        """Give every segment that no storage uses back to the driver."""
        with self._lock:
            self._settle()
            self._release_idle()

    def settle(self) -> None:
        """Count what was freed since the last allocation."""
        with self._lock:
            self._settle()

    @property
    def limit(self) -> int:
        """The bytes that this process may ask the driver for."""
        return self.total if self.fraction >= 1 else int(self.fraction * self.total)

    @property
    def reserved(self) -> int:
        """The bytes of all segments."""
        return sum(pool.reserved for pool in self.pools)

    @property
    def allocated(self) -> int:
        """The bytes of all live storages, each rounded up to 512."""
        self.settle()
        return self._in_use

    @property
    def _in_use(self) -> int:
        in_use = self.small.allocated + self.large.allocated
        return in_use + sum(pool.allocated for pool in self.graphs.all()) if self.graphs.by_id else in_use

    @property
    def pools(self) -> list[Pool]:
        """All pools, those of graphs too."""
        return [self.small, self.large, *self.graphs.all()]

    @property
    def free(self) -> int:
        """What the driver would call free: everything that was not asked from it."""
        return self.total - self.reserved

    @property
    def room(self) -> int:
        """Bytes that can be allocated without a second look, quick to tell: on this GPU and on the host."""
        left = self.limit - self._in_use
        return left if left < events.LARGE else events.LARGE

    def _settle(self) -> None:
        freed = self._freed
        while freed:
            span, size, moment = freed.popleft()
            pool, requested, row = span.pool, span.requested, span.row
            pool.give_back(span, size)
            self.statistics.note(pool, -size, -requested)
            if moment is not None and self.watch is not None:
                self.watch.left(size, self._in_use, moment, row)

    def _grow(self, pool: Pool, size: int) -> None:
        wanted = segment_size(size)
        if self.reserved + wanted > self.limit:
            self.statistics.retries += 1
            self._release_idle()
            if self.reserved + wanted > self.limit:
                raise self._out_of_memory(size)
        pool.add_segment(self._next_address, wanted)
        self._next_address += -(-wanted // ROUND_LARGE) * ROUND_LARGE
        self.statistics.segments_changed(pool, 1, wanted)
        if self.watch is not None:
            self.watch.grown(wanted)

    def _release_idle(self) -> None:
        pools = [pool for pool in (self.small, self.large, *self.graphs.left()) if pool.idle]
        if pools and self.watch is not None:
            self.watch.shrinking()
        for pool in pools:
            before = pool.reserved
            count = pool.release_idle()
            if count:
                self.statistics.segments_changed(pool, -count, pool.reserved - before)
                if self.watch is not None:
                    self.watch.shrunk(count, before - pool.reserved)

    def _out_of_memory(self, size: int) -> Exception:
        self.statistics.out_of_memories += 1
        allocated = self._in_use
        if self.watch is not None:
            self.watch.short(size, allocated)
        return cuda_errors.out_of_memory(
            self.index,
            wanted=segment_size(size),
            total=self.total,
            free=self.free,
            allowed=None if self.fraction >= 1 else self.limit,
            reserved=self.reserved,
            allocated=allocated,
        )


class Allocation:
    """The device memory of one storage; every view of it holds the same block, and the last one frees it."""

    __slots__ = ("__weakref__", "_memory", "_span", "home", "other_reads", "read", "recorded", "size_bytes", "written")

    def __init__(self, memory: CachingAllocator, size_bytes: int) -> None:
        self.size_bytes = 0
        self._memory = memory
        writer = memory.of_thread.writer
        self.written: Task | None = writer
        """The launch that wrote to it last; what allocates writes first."""
        self.read: Task | None = None
        self.other_reads: dict[Key, Task] | None = None
        """The last read since then, and the last ones of other streams."""
        # Nothing may write to it yet, or a copy on a stream of the GPU that it comes from.
        known = writer is not None and writer.key[0] == memory.index
        self.home = writer.key[1] if known and writer else 0 if memory.watch is None else memory.watch.stream()
        """The stream that allocated it, and gets it back."""
        self.recorded: set[int] | None = None
        """Streams that `record_stream` told of."""
        self._span: Block | None = None
        if size_bytes:
            self._span = memory.take(size_bytes)
            self.size_bytes = -(-size_bytes // GRANULE) * GRANULE

    @property
    def address(self) -> int:
        """Where the storage would be in the GPU's memory; 0 for one without bytes."""
        return 0 if self._span is None else self._span.address

    def grow(self, size_bytes: int) -> None:
        """The storage was enlarged in place: CUDA takes new memory, copies, and frees the old."""
        if size_bytes <= self.size_bytes:
            return
        span = self._memory.take(size_bytes)
        self._free()
        self._span, self.size_bytes = span, -(-size_bytes // GRANULE) * GRANULE

    def __del__(self) -> None:
        self._free()

    def reads(self) -> list[Task]:
        """The last reads since it was written, one for each stream."""
        found = [] if self.other_reads is None else list(self.other_reads.values())
        return found if self.read is None else [*found, self.read]

    def _free(self) -> None:
        if self._span is not None:
            if self._memory.watch is not None:
                self._memory.watch.freed(self)
            self._memory.leave(self._span, self.size_bytes, self.home)

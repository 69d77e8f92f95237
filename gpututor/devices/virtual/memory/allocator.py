"""Caching allocator of one GPU, including its private pools for graphs (c10/cuda/CUDACachingAllocator.cpp).

Segments are requested from the driver, cached and split into blocks as CUDA does. There is one difference: CUDA does
not split off a tail of up to 1 MiB and counts it as allocated. Here the tail is only reserved. So the allocated bytes
are always those of the live storages, each rounded up to 512. Each stream has segments of its own.

A graph has a private pool, because a replay writes where the capture did. No other allocation may get that memory while
the graph lives. Within the capture, freed memory is reused.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection
from typing import Any

from gpututor.devices.virtual import cuda_errors, torch_private
from gpututor.devices.virtual.clock.machine_clock import Key
from gpututor.devices.virtual.clock.timeline import StreamTask
from gpututor.devices.virtual.memory import events, expandable
from gpututor.devices.virtual.memory.events import AllocationLog, Moment
from gpututor.devices.virtual.memory.history import MemoryHistory
from gpututor.devices.virtual.memory.pool import ROUND_LARGE, Block, Pool, Statistics, segment_size
from gpututor.devices.virtual.memory.settings import AllocatorSettings
from gpututor.devices.virtual.memory.stream_pools import GraphPool, GraphPools, PendingFrees, PoolId, StreamPools

_FIRST_ADDRESS = 0x7C00_0000_0000
"""An address below those that Linux gives to the host's own memory."""
_BETWEEN_GPUS = 1 << 38


class _OfThread(threading.local):
    writer: StreamTask | None = None
    """Launch that writes this thread's next allocation; None for no launch."""
    pools: tuple[GraphPool, ...] = ()
    """Pools of this thread's blocks of `torch.cuda.use_mem_pool`; the last one is used."""


class CachingAllocator:
    """Caching allocator of one GPU. All sizes are bytes. Thread-safe.

    Python's garbage collector frees storages anywhere, even in the middle of an allocation. So `release` only appends
    to a queue, atomically, and the next allocation or query settles it.
    """

    __slots__ = (
        *("_freed", "_general", "_in_use", "_lock", "_next_address", "_pending", "_settings"),
        *("fraction", "graphs", "history", "index", "large", "of_thread", "small", "statistics", "total"),
        *("values_on_host", "watch"),
    )

    def __init__(self, index: int, total: int) -> None:
        self.index = index
        self.total = total
        self.fraction = 1.0
        """Share of the total that this process may use."""
        self._general = StreamPools()
        self.small, self.large = self._general.pair(0)
        """The pools of the default stream."""
        self._in_use = 0
        """Bytes of all storages, each rounded up to 512."""
        self._pending = PendingFrees()
        self.graphs = GraphPools()
        self.statistics = Statistics()
        self.watch: AllocationLog | None = None
        self.history: MemoryHistory | None = None
        """None unless the program records it."""
        self.values_on_host = True
        """True if a storage takes the same number of bytes on the host."""
        self.of_thread = _OfThread()
        self._freed: deque[tuple[Block, int, Moment | None, Collection[int]]] = deque()
        self._lock = threading.Lock()
        self._next_address = _FIRST_ADDRESS + index * _BETWEEN_GPUS
        self.settings = AllocatorSettings()

    @property
    def settings(self) -> AllocatorSettings:
        return self._settings

    @settings.setter
    def settings(self, settings: AllocatorSettings) -> None:
        """Use other settings from now on; memory that is allocated stays as it is."""
        self._settings = settings
        for pools in (self._general, *self.graphs.by_id.values()):
            pools.limit_splits(settings.max_split_bytes)

    def start(self, settings: AllocatorSettings) -> None:
        """Use the environment's settings, if it has any, from the start of CUDA on.

        The fraction and `max_split_size` of the statistics follow the settings only here.
        """
        if settings.text:
            self.settings = settings
        self.fraction = self._settings.fraction
        self.statistics.max_split_bytes = self._settings.max_split_bytes

    def take(self, requested: int, stream: int = 0) -> Block:
        """Return memory of a stream, for `requested` bytes, more than 0; raise CUDA's out-of-memory error."""
        size = self._settings.rounded(requested)
        pool = self._pool_for(size, stream)
        with self._lock:
            if self._freed:
                self._settle()
            if self._pending.held:
                self._free_pending()
            block = pool.take(size)
            if block is None:
                block = pool.take_from(self._grow(pool, size), size)
            block.requested = requested
            if self._settings.max_split_bytes is not None:
                self._count_oversize("oversize_allocations", block.size, 1)
            self.statistics.note(pool, size, requested, size)
            self._in_use += size
            watch = self.watch
            block.row = -1 if watch is None else watch.record_allocation(size, self._in_use, self.of_thread.writer)
            if watch is not None and watch.early_frees:
                watch.record_freed_in_use(range(block.address, block.address + size))
            if self.history is not None:
                self.history.add("alloc", block.address, size, stream)
        return block

    def _pool_for(self, size: int, stream: int) -> Pool:
        """Return the pool that gives a stream of this thread its next `size` bytes."""
        pools: StreamPools = self._general
        if self.graphs.by_id:
            pools = self.graphs.chosen() or self._pool_of_thread() or pools
        return pools.of(stream, size)

    def _pool_of_thread(self) -> GraphPool | None:
        """Return the pool of this thread's `use_mem_pool`; CUDA's backward passes run in another thread."""
        own = self.of_thread.pools
        return own[-1] if own and not torch_private.in_backward() else None

    def begin_pool(self, pool_id: PoolId) -> None:
        """Take this thread's memory from that pool until `end_pool`."""
        self.of_thread.pools = (*self.of_thread.pools, self.graphs.open(pool_id))

    def end_pool(self, pool_id: PoolId) -> None:
        pool = self.graphs.by_id[pool_id]
        self.of_thread.pools = tuple(other for other in self.of_thread.pools if other is not pool)

    def close_pool(self, pool_id: PoolId) -> None:
        """Count the end of a `MemPool`, and return its idle segments to the driver."""
        pool = self.graphs.by_id.get(pool_id)
        self.graphs.close(pool_id)
        # A destructor may run in the middle of an allocation; `empty_cache` returns them then.
        if pool is not None and self._lock.acquire(blocking=False):
            try:
                self._settle()
                self._release_idle(pool.all())
            finally:
                self._lock.release()

    def release(self, block: Block, size: int, stream: int, recorded: Collection[int] = ()) -> None:
        """Free the memory of a storage of `size` bytes, a multiple of 512, which `stream` gets back.

        The streams in `recorded` were passed to `record_stream`.
        """
        others: Collection[int] = ()
        # A graph's memory is not for others, and its replays are in the order of one stream.
        if recorded and not self.graphs.is_captured(block.pool.pool_id):
            others = [other for other in recorded if other != stream]
        self._freed.append((block, size, None if self.watch is None else self.watch.moment(stream), others))
        if self.history is not None:
            self.history.add("free_requested", block.address, size, stream)
            if not others:
                self.history.add("free_completed", block.address, size, stream)

    def check_fits(self, requested: int) -> None:
        """Raise CUDA's out-of-memory error if a storage of that size would not fit.

        Allocate nothing, but free the cache if `take` would have to.
        Raise `MemoryError` if it fits on the GPU, but its values do not fit in the host's real memory.
        """
        if not requested:
            return
        size = self._settings.rounded(requested)
        pool = self._pool_for(size, 0 if self.watch is None else self.watch.stream())
        with self._lock:
            self._settle()
            if self._pending.held:
                self._free_pending()
            if not pool.has(size):
                self._make_room(pool, size)
        if self.values_on_host:
            events.check_fits_on_host(requested)

    def check_all_fit(self, sizes: list[int]) -> None:
        """Call `check_fits` for several new storages, whose sum has to fit too."""
        for size in sizes:
            self.check_fits(size)
        if len(sizes) > 1 and sum(sizes) > self.limit - self.allocated:
            with self._lock:
                self._retry()
                raise self._out_of_memory(max(sizes))

    def figures(self) -> dict[str, Any]:
        """Return the statistics nested as in `torch._C._cuda_memoryStats`."""
        with self._lock:
            self._settle()
            return self.statistics.as_nested_dict()

    def begin_peaks(self) -> None:
        """Start `peak_of_call` from the current value; the program's statistics do not change."""
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
        """Most bytes allocated since `begin_peaks` or `reset_peaks`."""
        with self._lock:
            self._settle()
            return self.statistics.peak_of_call

    def segments_of_call(self) -> dict[str, int]:
        """Return the bytes of the segments now and at most since `begin_peaks`, and of the largest free block."""
        with self._lock:
            self._settle()
            free = [pool.free[-1][0] for pool in self.pools if pool.free]
            peak = self.statistics.reserved_peak_of_call
            return {"reserved": self.reserved, "reserved_peak": peak, "largest_free": max(free, default=0)}

    def empty_cache(self) -> None:
        """Return all segments without storages to the driver."""
        with self._lock:
            self._settle()
            self._release_idle()

    def settle(self) -> None:
        """Count the storages freed since the last allocation."""
        with self._lock:
            self._settle()

    @property
    def limit(self) -> int:
        """Bytes that this process may request from the driver."""
        return self.total if self.fraction >= 1 else int(self.fraction * self.total)

    @property
    def reserved(self) -> int:
        """Bytes of all segments."""
        return sum(pool.reserved for pool in self.pools)

    @property
    def allocated(self) -> int:
        """Bytes of all live storages, each rounded up to 512."""
        self.settle()
        return self._in_use

    @property
    def pools(self) -> list[Pool]:
        return [*self._general.all(), *self.graphs.all()]

    @property
    def free(self) -> int:
        """Bytes that the driver still has."""
        return self.total - self.reserved

    @property
    def room(self) -> int:
        """Bytes that certainly fit on this GPU and on the host, computed quickly."""
        left = self.limit - self._in_use
        return left if left < events.LARGE else events.LARGE

    def _settle(self) -> None:
        freed, watch = self._freed, self.watch
        while freed:
            block, size, moment, others = freed.popleft()
            pool, requested, row = block.pool, block.requested, block.row
            if self._settings.max_split_bytes is not None:
                self._count_oversize("oversize_allocations", block.size, -1)
            if others:
                block.requested = 0
                self._pending.add(block, size, others)
            else:
                pool.give_back(block, size)
            self.statistics.note(pool, -size, -requested, 0 if others else -size)
            self._in_use -= size
            if moment is not None and watch is not None:
                watch.record_free(size, self._in_use, moment, row)

    def _free_pending(self, *, wait: bool = False) -> None:
        """Free the blocks that no stream uses any more; with `wait`, all of them. A capture records no events."""
        if self.watch is None or self.graphs.capturing is not None:
            return
        for block, size in self._pending.released(self.watch, wait=wait):
            block.pool.give_back(block, size)
            self.statistics.note(block.pool, 0, 0, -size)
            if self.history is not None:
                self.history.add("free_completed", block.address, size, block.pool.stream)

    def _make_room(self, pool: Pool, size: int) -> int:
        """Return the bytes to request from the driver for `size` bytes more; raise CUDA's error if it has fewer."""
        wanted = self._missing(pool, size)
        if self.reserved + wanted > self.limit:
            self._retry()
            wanted = self._missing(pool, size)
            if self.reserved + wanted > self.limit:
                raise self._out_of_memory(size)
        return wanted

    def _retry(self) -> None:
        """Free the cache and count the attempt that follows. No segment is freed during a capture."""
        if self.graphs.capturing is None:
            self._release_idle()
            self.statistics.retries += 1

    def _grow(self, pool: Pool, size: int) -> Block:
        """Return a new free block of at least `size` bytes."""
        wanted = self._make_room(pool, size)
        if self._settings.expandable:
            block = self._map(pool, size, wanted)
        else:
            block = pool.add_segment(self._next_address, wanted)
            if self.history is not None:
                self.history.add("segment_alloc", self._next_address, wanted)
            self._next_address += -(-wanted // ROUND_LARGE) * ROUND_LARGE
            self.statistics.segments_changed(pool, 1, wanted)
            self._count_oversize("oversize_segments", wanted, 1)
        if self.watch is not None:
            self.watch.spend(events.allocation_ns(wanted))
        return block

    def _count_oversize(self, name: str, size: int, step: int) -> None:
        """Add `step` to a statistic if memory of `size` bytes is too large to be split."""
        most = self._settings.max_split_bytes
        if most is not None and size >= most:
            self.statistics.oversize[name].change(step)

    def _missing(self, pool: Pool, size: int) -> int:
        """Return the bytes that the driver has to give before the pool has a free block of `size` bytes."""
        if not self._settings.expandable:
            return segment_size(size)
        page = expandable.page_of(pool)
        return expandable.bytes_to_map(expandable.run_for(pool, size), size, page) or -(-size // page) * page

    def _map(self, pool: Pool, size: int, wanted: int) -> Block:
        """Let an expandable segment grow by `wanted` bytes; return its free block, of at least `size` bytes."""
        page = expandable.page_of(pool)
        run = expandable.run_for(pool, size)
        if not run:
            # The driver gives addresses for all of the memory and an eighth more.
            pages = -(-self.total * 9 // (8 * page))
            address = -(-self._next_address // page) * page
            self._next_address = address + pages * page
            expandable.add_expandable_segment(pool, address, pages * page)
            run = expandable.run_for(pool, size)
        first_unmapped = next(block.address for block in run if not block.is_free)
        block = expandable.map_pages(pool, run, size, page)
        self.statistics.segments_changed(pool, 0, wanted)
        if self.history is not None:
            self.history.add("segment_map", first_unmapped, wanted)
        return block

    def _release_idle(self, pools: list[Pool] | None = None) -> None:
        self.statistics.synchronized += 1
        if self._pending.held:
            self._free_pending(wait=True)
        if pools is None:
            pools = [*self._general.all(), *self.graphs.unused()]
        pools = [pool for pool in pools if pool.free]
        waited = False
        for pool in pools:
            before = pool.reserved
            released = pool.release_idle()
            count = len(released)
            for _, size in released:
                self._count_oversize("oversize_segments", size, -1)
            unmapped = expandable.unmap_free_pages(pool)
            if self.watch is not None and (released or unmapped) and not waited:
                self.watch.wait_for_device()
                waited = True
            if self.history is not None:
                for address, size in released:
                    self.history.add("segment_free", address, size)
                for address, size in unmapped:
                    self.history.add("segment_unmap", address, size)
            if released or unmapped:
                self.statistics.segments_changed(pool, -count, pool.reserved - before)
                if self.watch is not None:
                    self.watch.spend(events.free_ns(count + len(unmapped), before - pool.reserved))

    def _out_of_memory(self, size: int) -> Exception:
        self.statistics.out_of_memories += 1
        allocated = self._in_use
        if self.history is not None:
            self.history.add("oom", self.free, size)
        if self.watch is not None:
            self.watch.record_out_of_memory(size, allocated)
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
    """Device memory of one storage, shared by all its views and freed with the last one."""

    __slots__ = ("__weakref__", "_block", "_memory", "home", "other_reads", "read", "recorded", "size_bytes", "written")

    def __init__(self, memory: CachingAllocator, size_bytes: int) -> None:
        self.size_bytes = 0
        self._memory = memory
        writer = memory.of_thread.writer
        self.written: StreamTask | None = writer
        """Last launch that wrote to it; the launch that allocates writes first."""
        self.read: StreamTask | None = None
        self.other_reads: dict[Key, StreamTask] | None = None
        """Last read since then, and the last reads of other streams."""
        # There may be no writer yet, or a copy on a stream of the source GPU.
        known = writer is not None and writer.key[0] == memory.index
        self.home = writer.key[1] if known and writer else 0 if memory.watch is None else memory.watch.stream()
        """Stream that allocated it, and gets it back."""
        self.recorded: set[int] | None = None
        """Streams passed to `record_stream`."""
        self._block: Block | None = None
        if size_bytes:
            self._block = memory.take(size_bytes, self.home)
            self.size_bytes = self._block.counted

    @property
    def address(self) -> int:
        """Address of the storage in the GPU's memory; 0 for an empty storage."""
        return 0 if self._block is None else self._block.address

    @property
    def is_of_graph(self) -> bool:
        """True if the memory is in the pool of a graph, which keeps it."""
        return self._block is not None and self._memory.graphs.is_captured(self._block.pool.pool_id)

    def grow(self, size_bytes: int) -> None:
        """Follow a storage that was enlarged in place: CUDA allocates new memory, copies, and frees the old memory."""
        if size_bytes > self.size_bytes:
            self.resize(size_bytes)

    def resize(self, size_bytes: int) -> None:
        """Take memory of another size, then free the old memory; with 0 bytes there is none."""
        block = self._memory.take(size_bytes, self.home) if size_bytes else None
        self._free()
        self._block, self.size_bytes = block, 0 if block is None else block.counted

    def reads(self) -> list[StreamTask]:
        """Return the last reads since it was written, one per stream."""
        reads = [] if self.other_reads is None else list(self.other_reads.values())
        return reads if self.read is None else [*reads, self.read]

    def _free(self) -> None:
        if self._block is not None:
            watch = self._memory.watch
            if watch is not None and watch.order.active:
                uses = self.reads() if self.written is None else [*self.reads(), self.written]
                memory = range(self._block.address, self._block.address + self.size_bytes)
                watch.note_freed_in_use(uses, self.home, self.recorded or (), memory)
            self._memory.release(self._block, self.size_bytes, self.home, self.recorded or ())

    __del__ = _free

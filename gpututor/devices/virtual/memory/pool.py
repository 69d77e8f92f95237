"""Segments and blocks of a caching allocator, and its statistics."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Any

import numpy as np
import numpy.typing as npt

from gpututor.devices.virtual.memory.settings import GRANULE

SMALL_SIZE = 1 << 20
"""Largest allocation of the small pool, in bytes (kSmallSize)."""
SMALL_SEGMENT = 2 << 20
"""Bytes of a segment of the small pool (kSmallBuffer)."""
LARGE_SEGMENT = 20 << 20
"""Bytes of a segment for large allocations below `MIN_LARGE` (kLargeBuffer)."""
MIN_LARGE = 10 << 20
"""Smallest allocation that gets a segment of its own size (kMinLargeAlloc)."""
ROUND_LARGE = 2 << 20
"""Bytes: the size of such a segment is rounded up to a multiple of them (kRoundLarge)."""


def segment_size(size_bytes: int) -> int:
    """Return the bytes requested from the driver for an allocation of `size_bytes` (get_allocation_size)."""
    if size_bytes <= SMALL_SIZE:
        return SMALL_SEGMENT
    return LARGE_SEGMENT if size_bytes < MIN_LARGE else -(-size_bytes // ROUND_LARGE) * ROUND_LARGE


class Block:
    """Range of addresses in one segment, free or the memory of a storage; linked with its neighbors."""

    __slots__ = (
        *("address", "after", "before", "counted", "is_free", "is_mapped"),
        *("is_pending", "pool", "requested", "row", "size"),
    )

    def __init__(self, pool: Pool, address: int, size: int, before: Block | None, after: Block | None) -> None:
        self.pool = pool
        self.address = address
        self.size = size
        self.requested = 0
        """Bytes requested, before rounding; 0 while it is free."""
        self.counted = 0
        """Bytes that the storage in it takes, after rounding; the block can be larger."""
        self.is_free = True
        self.is_pending = False
        """True if its storage is gone, but a stream still uses it."""
        self.is_mapped = True
        """False if it has addresses, but no memory (see `gpututor.devices.virtual.memory.expandable`)."""
        self.row = -1
        """Trace event of its allocation; -1 for none."""
        self.before = before
        self.after = after


class Pool:
    """Segments for small or for large allocations; free blocks are taken by best fit."""

    __slots__ = (
        *("_least_rest", "allocated", "expands", "free", "idle", "idle_bytes"),
        *("is_small", "max_split_bytes", "noted_split_bytes", "noted_splits", "pool_id", "reserved", "segments"),
        *("stream", "tail_bytes"),
    )

    def __init__(self, is_small: bool, stream: int = 0, pool_id: tuple[int, int] = (0, 0)) -> None:
        self.is_small = is_small
        self.stream = stream
        """The stream whose allocations it serves."""
        self.pool_id = pool_id
        """The number of the private pool of a graph; zeros for none."""
        self.noted_splits = self.noted_split_bytes = 0
        """Number and bytes of the free blocks next to others, as last counted in the statistics."""
        self.free: list[tuple[int, int, Block]] = []
        """(size, address, block) of the free blocks, sorted: the first that is large enough is the best fit."""
        self.segments: dict[int, Block] = {}
        """First block of each segment, by address."""
        self.reserved = 0
        """Bytes of all segments."""
        self.allocated = 0
        """Bytes of all blocks that are not free, each as large as its storage, rounded up to 512."""
        self.tail_bytes = 0
        """Bytes behind the storages in these blocks: tails that are too small to be split off."""
        self.idle = 0
        """Number of segments without storages; they have `idle_bytes` bytes."""
        self.idle_bytes = 0
        self.expands = False
        """True if it has expandable segments."""
        self.max_split_bytes: int | None = None
        """Blocks of at least this size are not split; None for no limit."""
        # The rest of a block is split off only from this size on (should_split).
        self._least_rest = GRANULE if is_small else SMALL_SIZE + 1

    def take(self, size_bytes: int) -> Block | None:
        """Return the best fitting free block, cut to `size_bytes` (a multiple of 512); None if none is large enough."""
        position = self._best_fit(size_bytes)
        return None if position is None else self._cut(position, size_bytes)

    def take_from(self, block: Block, size_bytes: int) -> Block:
        """Return a free block, cut to `size_bytes`; the largest size that is split does not matter for a new one."""
        return self._cut(bisect_left(self.free, (block.size, block.address)), size_bytes)

    def has(self, size_bytes: int) -> bool:
        """Return True if `take` would return a block."""
        return self._best_fit(size_bytes) is not None

    def _best_fit(self, size_bytes: int) -> int | None:
        """Return the position in `free` of the smallest block that is large enough and may be used."""
        free = self.free
        position = bisect_left(free, (size_bytes,))
        if position == len(free) or (
            self.max_split_bytes is not None and self._is_oversize(free[position][0], size_bytes)
        ):
            return None
        return position

    def _cut(self, position: int, size_bytes: int) -> Block:
        """Take the free block at a position, and split off the rest if there is enough of it."""
        free = self.free
        whole, address, block = free.pop(position)
        if block.before is None and block.after is None:
            self.idle -= 1
            self.idle_bytes -= whole
        rest = whole - size_bytes
        if rest >= self._least_rest and (
            self.max_split_bytes is None or self.is_small or size_bytes < self.max_split_bytes
        ):
            block.size = size_bytes
            after = block.after
            tail = block.after = Block(self, address + size_bytes, rest, block, after)
            if after is not None:
                after.before = tail
            insort(free, (rest, tail.address, tail))
        block.is_free = False
        block.counted = size_bytes
        self.allocated += size_bytes
        self.tail_bytes += block.size - size_bytes
        return block

    def _is_oversize(self, whole: int, size_bytes: int) -> bool:
        """Return True if a block of `whole` bytes is too large for a request, and may not be split (get_free_block)."""
        most = self.max_split_bytes
        if most is None or self.is_small:
            return False
        return whole >= most if size_bytes < most else whole >= size_bytes + LARGE_SEGMENT

    def give_back(self, block: Block, size_bytes: int) -> None:
        """Free a block that held a storage of `size_bytes`, and merge it with its free neighbors."""
        self.allocated -= size_bytes
        self.tail_bytes -= block.size - size_bytes
        block.is_free = True
        block.requested = 0
        after, before = block.after, block.before
        if after is not None and after.is_free:
            self.forget(after)
            block.size += after.size
            block.after = after.after
            if after.after is not None:
                after.after.before = block
        if before is not None and before.is_free:
            self.forget(before)
            before.size += block.size
            before.after = block.after
            if block.after is not None:
                block.after.before = before
            block = before
        insort(self.free, (block.size, block.address, block))
        if block.before is None and block.after is None:
            self.idle += 1
            self.idle_bytes += block.size

    def add_segment(self, address: int, size_bytes: int) -> Block:
        """Return the free block of a new segment."""
        block = self.segments[address] = Block(self, address, size_bytes, None, None)
        insort(self.free, (size_bytes, address, block))
        self.reserved += size_bytes
        self.idle += 1
        self.idle_bytes += size_bytes
        return block

    def release_idle(self) -> list[tuple[int, int]]:
        """Return the segments without storages to the driver; return the (address, bytes) of each."""
        idle = [entry for entry in self.free if entry[2].before is None and entry[2].after is None]
        for size, address, block in idle:
            self.forget(block)
            del self.segments[address]
            self.reserved -= size
        self.idle = self.idle_bytes = 0
        return [(address, size) for size, address, _ in idle]

    def forget(self, block: Block) -> None:
        del self.free[bisect_left(self.free, (block.size, block.address))]


Numbers = npt.NDArray[np.int64]
_FOLD_AT = 10_000


class Quantity:
    """Current value of a statistic, with its peaks and totals."""

    __slots__ = ("_forgotten", "_forgotten_freed", "current", "earlier_peak", "ever", "peak")

    def __init__(self) -> None:
        self.current = 0
        self.peak = 0
        self.earlier_peak = 0
        """Peak from before `begin_anew`, which the program still sees."""
        self.ever = 0
        """Sum of all increases."""
        self._forgotten = self._forgotten_freed = 0

    def follow(self, changes: Numbers) -> None:
        """Add changes in their order."""
        if changes.size:
            course = np.cumsum(changes)
            self.peak = max(self.peak, self.current + int(course.max()))
            self.current += int(course[-1])
            self.ever += int(changes[changes > 0].sum())

    def change(self, by: int) -> None:
        self.follow(np.array([by]))

    @property
    def meter(self) -> int:
        """Peak that the program sees."""
        return max(self.peak, self.earlier_peak)

    @property
    def freed(self) -> int:
        """Sum of all decreases."""
        return self.ever - self.current

    def begin_anew(self) -> None:
        """Start `peak` from the current value; `meter` does not change."""
        self.earlier_peak, self.peak = self.meter, self.current

    def reset_peak(self) -> None:
        """Forget all earlier peaks (`reset_peak_stat`)."""
        self.earlier_peak, self.peak = 0, self.current

    def forget(self) -> None:
        """Start the totals from zero (`reset_accumulated_stat`)."""
        self._forgotten, self._forgotten_freed = self.ever, self.freed

    def as_dict(self) -> dict[str, int]:
        """Return the values as C++ does (`statToDict`)."""
        return {
            "current": self.current,
            "peak": self.meter,
            "allocated": self.ever - self._forgotten,
            "freed": self.freed - self._forgotten_freed,
        }


class _Figures(dict[str, Quantity]):
    """Statistics of one pool, or of both, by CUDA's names."""

    def __init__(self) -> None:
        names = "allocation segment active inactive_split"
        sizes = "allocated_bytes reserved_bytes active_bytes inactive_split_bytes requested_bytes"
        super().__init__({name: Quantity() for name in f"{names} {sizes}".split()})

    def follow(self, rows: Numbers) -> None:
        """Add rows of the log of `Statistics`."""
        self["allocation"].follow(np.sign(rows[:, 0]))
        self["allocated_bytes"].follow(rows[:, 0])
        self["requested_bytes"].follow(rows[:, 1])
        self["inactive_split"].follow(rows[:, 3])
        self["inactive_split_bytes"].follow(rows[:, 4])
        self["active"].follow(np.sign(rows[:, 5]))
        self["active_bytes"].follow(rows[:, 5])


class Statistics:
    """Statistics of one GPU's allocator.

    An allocation only appends a row to a log; the figures are computed when they are read.
    """

    __slots__ = (
        *("_all", "_large", "_log", "_small", "max_split_bytes", "out_of_memories", "oversize", "retries"),
        "synchronized",
    )

    def __init__(self) -> None:
        self._all, self._small, self._large = _Figures(), _Figures(), _Figures()
        # Rows of: bytes, requested bytes (both negative for a free), 1 for the small pool, then changes of the number
        # and bytes of the pool's split blocks, and of the bytes that streams use.
        self._log: list[tuple[int, int, bool, int, int, int]] = []
        self.retries = 0
        """Number of times that the cache was emptied to make room."""
        self.synchronized = 0
        """Number of times that all streams were synchronized to free cached memory."""
        self.out_of_memories = 0
        self.max_split_bytes: int | None = None
        """Setting with which CUDA started: blocks of at least this size are not split."""
        self.oversize = {"oversize_allocations": Quantity(), "oversize_segments": Quantity()}
        """Numbers of allocations and segments that are too large to be split."""

    def note(self, pool: Pool, size: int, requested: int, active: int) -> None:
        """Log an allocation of `size` bytes, or a free if that is negative; `active` bytes are used from now on."""
        log = self._log
        splits = len(pool.free) - pool.idle
        split_bytes = pool.reserved - pool.allocated - pool.tail_bytes - pool.idle_bytes
        more, more_bytes = splits - pool.noted_splits, split_bytes - pool.noted_split_bytes
        log.append((size, requested, pool.is_small, more, more_bytes, active))
        pool.noted_splits, pool.noted_split_bytes = splits, split_bytes
        if len(log) >= _FOLD_AT:
            self._fold()

    def segments_changed(self, pool: Pool, count: int, size: int) -> None:
        """Count new segments of `size` bytes in total; negative for segments returned to the driver."""
        self._fold()
        for figures in (self._all, self._small if pool.is_small else self._large):
            figures["segment"].follow(np.array([count]))
            figures["reserved_bytes"].follow(np.array([size]))

    def begin_peaks(self) -> None:
        """Start `peak_of_call` from the current value; the program's statistics do not change."""
        for quantity in self._quantities():
            quantity.begin_anew()

    def reset_peaks(self) -> None:
        for quantity in self._quantities():
            quantity.reset_peak()

    def reset_accumulated(self) -> None:
        for quantity in self._quantities():
            quantity.forget()
        self.retries = self.out_of_memories = self.synchronized = 0

    @property
    def peak_allocated(self) -> int:
        self._fold()
        return self._all["allocated_bytes"].meter

    @property
    def peak_of_call(self) -> int:
        """Most bytes allocated since `begin_peaks` or `reset_peaks`."""
        self._fold()
        return self._all["allocated_bytes"].peak

    @property
    def reserved_peak_of_call(self) -> int:
        """Most bytes reserved since `begin_peaks` or `reset_peaks`."""
        return self._all["reserved_bytes"].peak

    @property
    def peak_reserved(self) -> int:
        return self._all["reserved_bytes"].meter

    def as_nested_dict(self) -> dict[str, Any]:
        """Return the figures nested as in `torch._C._cuda_memoryStats`: figure, pool, metric."""
        self._fold()
        pools = {"all": self._all, "small_pool": self._small, "large_pool": self._large}
        nested: dict[str, Any] = {
            name: {pool: figures[name].as_dict() for pool, figures in pools.items()} for name in self._all
        }
        return {
            **nested,
            **{name: quantity.as_dict() for name, quantity in self.oversize.items()},
            "max_split_size": -1 if self.max_split_bytes is None else self.max_split_bytes,
            "num_alloc_retries": self.retries,
            "num_ooms": self.out_of_memories,
            "num_sync_all_streams": self.synchronized,
            "num_device_alloc": self._all["segment"].ever,
            "num_device_free": self._all["segment"].freed,
        }

    def _quantities(self) -> list[Quantity]:
        self._fold()
        return [*self._all.values(), *self._small.values(), *self._large.values(), *self.oversize.values()]

    def _fold(self) -> None:
        """Move the log into the figures."""
        if not self._log:
            return
        rows: Numbers = np.array(self._log, dtype=np.int64)
        self._log.clear()
        small = rows[:, 2] == 1
        self._all.follow(rows)
        for figures, of_pool in ((self._small, small), (self._large, ~small)):
            figures.follow(rows[of_pool])

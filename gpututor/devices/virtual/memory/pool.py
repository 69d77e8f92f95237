"""Pools: segments, blocks and their statistics."""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from typing import Any

import numpy as np
import numpy.typing as npt

GRANULE = 512
"""Every allocation is rounded up to a multiple of this many bytes (kMinBlockSize)."""
SMALL_SIZE = 1 << 20
"""Up to this size an allocation belongs to the small pool (kSmallSize)."""
SMALL_SEGMENT = 2 << 20
"""What the small pool asks the driver for (kSmallBuffer)."""
LARGE_SEGMENT = 20 << 20
"""What the large pool asks the driver for, for less than `MIN_LARGE` bytes (kLargeBuffer)."""
MIN_LARGE = 10 << 20
"""From this size on, an allocation gets a segment of its own size (kMinLargeAlloc)."""
ROUND_LARGE = 2 << 20
"""Such a segment is rounded up to a multiple of this many bytes (kRoundLarge)."""


def rounded(size_bytes: int, unit: int = GRANULE) -> int:
    """`size_bytes` up to the next multiple of `unit`."""
    return -(-size_bytes // unit) * unit


def segment_size(size_bytes: int) -> int:
    """The bytes that the driver is asked for, for an allocation of `size_bytes` (get_allocation_size)."""
    if size_bytes <= SMALL_SIZE:
        return SMALL_SEGMENT
    return LARGE_SEGMENT if size_bytes < MIN_LARGE else rounded(size_bytes, ROUND_LARGE)


class Block:
    """Neighbouring addresses in one segment: a storage's memory, or free."""

    __slots__ = ("address", "after", "before", "is_free", "pool", "requested", "row", "size")

    def __init__(self, pool: Pool, address: int, size: int, before: Block | None, after: Block | None) -> None:
        self.pool = pool
        self.address = address
        self.size = size
        self.requested = 0
        """The bytes that were asked for, before rounding; 0 while it is free."""
        self.is_free = True
        self.row = -1
        """The event of the trace that tells of its being taken; -1 where none does."""
        self.before = before
        self.after = after


class Pool:
    """The segments for small allocations, or those for large ones; free spans are taken by best fit."""

    __slots__ = ("_least_rest", "allocated", "free", "idle", "idle_bytes", "is_small", "reserved", "segments")

    def __init__(self, is_small: bool) -> None:
        self.is_small = is_small
        self.free: list[tuple[int, int, Block]] = []
        """(size, address, span), sorted: the first that is large enough is the best fit."""
        self.segments: dict[int, Block] = {}
        """The first span of each segment, by its address."""
        self.reserved = 0
        """Bytes of all segments."""
        self.allocated = 0
        """Bytes of all storages, each rounded to 512."""
        self.idle = 0
        """Segments that no storage uses; `idle_bytes` of them."""
        self.idle_bytes = 0
        # The rest of a span is split off only when it is worth it (should_split).
        self._least_rest = GRANULE if is_small else SMALL_SIZE + 1

    def take(self, size_bytes: int) -> Block | None:
        """The best fitting free span, cut to `size_bytes` (a multiple of 512); None when no span is large enough."""
        free = self.free
        place = bisect_left(free, (size_bytes,))
        if place == len(free):
            return None
        whole, address, span = free.pop(place)
        if span.before is None and span.after is None:
            self.idle -= 1
            self.idle_bytes -= whole
        rest = whole - size_bytes
        if rest >= self._least_rest:
            span.size = size_bytes
            after = span.after
            tail = span.after = Block(self, address + size_bytes, rest, span, after)
            if after is not None:
                after.before = tail
            insort(free, (rest, tail.address, tail))
        span.is_free = False
        self.allocated += size_bytes
        return span

    def give_back(self, span: Block, size_bytes: int) -> None:
        """Free a span of which `size_bytes` were counted; it becomes one with its free neighbours."""
        self.allocated -= size_bytes
        span.is_free = True
        span.requested = 0
        after, before = span.after, span.before
        if after is not None and after.is_free:
            self._forget(after)
            span.size += after.size
            span.after = after.after
            if after.after is not None:
                after.after.before = span
        if before is not None and before.is_free:
            self._forget(before)
            before.size += span.size
            before.after = span.after
            if span.after is not None:
                span.after.before = before
            span = before
        insort(self.free, (span.size, span.address, span))
        if span.before is None and span.after is None:
            self.idle += 1
            self.idle_bytes += span.size

    def add_segment(self, address: int, size_bytes: int) -> None:
        """Memory that the driver gave."""
        span = self.segments[address] = Block(self, address, size_bytes, None, None)
        insort(self.free, (size_bytes, address, span))
        self.reserved += size_bytes
        self.idle += 1
        self.idle_bytes += size_bytes

    def release_idle(self) -> int:
        """Give the segments that no storage uses back to the driver; how many there were."""
        idle = [entry for entry in self.free if entry[2].before is None and entry[2].after is None]
        for size, address, span in idle:
            self._forget(span)
            del self.segments[address]
            self.reserved -= size
        self.idle = self.idle_bytes = 0
        return len(idle)

    def _forget(self, span: Block) -> None:
        del self.free[bisect_left(self.free, (span.size, span.address))]


Numbers = npt.NDArray[np.int64]
_COLUMNS = 5
_FOLD_AT = 50_000 * _COLUMNS


class Quantity:
    """One figure that goes up and down."""

    __slots__ = ("_forgotten", "_forgotten_freed", "current", "earlier_peak", "ever", "peak")

    def __init__(self) -> None:
        self.current = 0
        self.peak = 0
        self.earlier_peak = 0
        """The peak that the program's meter still shows from before `peak` began anew."""
        self.ever = 0
        """All that was ever added."""
        self._forgotten = self._forgotten_freed = 0

    def follow(self, changes: Numbers) -> None:
        """Add up changes in their order."""
        if changes.size:
            course = np.cumsum(changes)
            self.peak = max(self.peak, self.current + int(course.max()))
            self.current += int(course[-1])
            self.ever += int(changes[changes > 0].sum())

    def change(self, by: int) -> None:
        self.follow(np.array([by], dtype=np.int64))

    @property
    def meter(self) -> int:
        """The peak that the program sees."""
        return max(self.peak, self.earlier_peak)

    @property
    def freed(self) -> int:
        """All that was ever taken away."""
        return self.ever - self.current

    def begin_anew(self) -> None:
        """Start `peak` from what is held now; the program's meter keeps the earlier peak."""
        self.earlier_peak, self.peak = max(self.earlier_peak, self.peak), self.current

    def reset_peak(self) -> None:
        """Forget every earlier peak (`reset_peak_stat`)."""
        self.earlier_peak, self.peak = 0, self.current

    def forget(self) -> None:
        """What was added and freed until now counts no more (`reset_accumulated_stat`)."""
        self._forgotten, self._forgotten_freed = self.ever, self.freed

    def as_dict(self) -> dict[str, int]:
        """As C++ gives it (`statToDict`)."""
        return {
            "current": self.current,
            "peak": self.meter,
            "allocated": self.ever - self._forgotten,
            "freed": self.freed - self._forgotten_freed,
        }


class _Figures:
    """What is counted for one pool, or for both together."""

    __slots__ = ("bytes", "count", "requested", "reserved", "segments", "split_bytes", "splits")

    def __init__(self) -> None:
        self.count, self.bytes, self.requested = Quantity(), Quantity(), Quantity()
        self.segments, self.reserved = Quantity(), Quantity()
        self.splits, self.split_bytes = Quantity(), Quantity()

    def named(self) -> dict[str, Quantity]:
        """By CUDA's names; without other streams, what is active is what is allocated."""
        return {
            "allocation": self.count,
            "segment": self.segments,
            "active": self.count,
            "inactive_split": self.splits,
            "allocated_bytes": self.bytes,
            "reserved_bytes": self.reserved,
            "active_bytes": self.bytes,
            "inactive_split_bytes": self.split_bytes,
            "requested_bytes": self.requested,
        }

    def all(self) -> list[Quantity]:
        return [
            *(self.count, self.bytes, self.requested, self.segments, self.reserved),
            *(self.splits, self.split_bytes),
        ]


class Statistics:
    """The figures of one GPU's allocator.

    An allocation only writes one row into a log; the figures are worked out of it when somebody asks.
    """

    __slots__ = ("_all", "_large", "_log", "_small", "out_of_memories", "retries")

    def __init__(self) -> None:
        self._all, self._small, self._large = _Figures(), _Figures(), _Figures()
        # Rows of: bytes, requested bytes (both negative for what is freed), small pool or not, the pool's split blocks
        # and their bytes from then on.
        self._log = array("q")
        self.retries = 0
        """Times that the cache was emptied to make room."""
        self.out_of_memories = 0

    def note(self, pool: Pool, size: int, requested: int) -> None:
        """A storage of `size` bytes came, or went where that is negative."""
        log = self._log
        log.extend(
            (
                size,
                requested,
                pool.is_small,
                len(pool.free) - pool.idle,
                pool.reserved - pool.allocated - pool.idle_bytes,
            )
        )
        if len(log) >= _FOLD_AT:
            self._fold()

    def segments_changed(self, pool: Pool, count: int, size: int) -> None:
        """The driver gave `count` segments, `size` bytes in all; negative where it got them back."""
        self._fold()
        for figures in (self._all, self._of(pool)):
            figures.segments.change(count)
            figures.reserved.change(size)

    def begin_peaks(self) -> None:
        """Start `peak_of_call` from what is held now; the program's meters do not change."""
        for quantity in self._quantities():
            quantity.begin_anew()

    def reset_peaks(self) -> None:
        for quantity in self._quantities():
            quantity.reset_peak()

    def reset_accumulated(self) -> None:
        """Forget what was ever added and freed."""
        for quantity in self._quantities():
            quantity.forget()
        self.retries = self.out_of_memories = 0

    @property
    def peak_allocated(self) -> int:
        self._fold()
        return self._all.bytes.meter

    @property
    def peak_of_call(self) -> int:
        """The most allocated since `begin_peaks`, or since the program reset its meters."""
        self._fold()
        return self._all.bytes.peak

    @property
    def peak_reserved(self) -> int:
        return self._all.reserved.meter

    def as_nested_dict(self) -> dict[str, Any]:
        """As `torch._C._cuda_memoryStats` nests them: figure, pool, metric."""
        self._fold()
        pools = {"all": self._all.named(), "small_pool": self._small.named(), "large_pool": self._large.named()}
        nested: dict[str, Any] = {
            name: {pool: figures[name].as_dict() for pool, figures in pools.items()} for name in self._all.named()
        }
        nothing = Quantity()
        return {
            **nested,
            # No block is oversize: there is no limit to the size that may be split (max_split_size).
            "oversize_allocations": nothing.as_dict(),
            "oversize_segments": nothing.as_dict(),
            "max_split_size": -1,
            "num_alloc_retries": self.retries,
            "num_ooms": self.out_of_memories,
            "num_sync_all_streams": 0,
            "num_device_alloc": self._all.segments.ever,
            "num_device_free": self._all.segments.freed,
        }

    def _of(self, pool: Pool) -> _Figures:
        return self._small if pool.is_small else self._large

    def _quantities(self) -> list[Quantity]:
        self._fold()
        return [*self._all.all(), *self._small.all(), *self._large.all()]

    def _fold(self) -> None:
        """Work the log into the figures."""
        if not self._log:
            return
        rows: Numbers = np.array(self._log, dtype=np.int64).reshape(-1, _COLUMNS)
        del self._log[:]
        small = rows[:, 2] == 1
        changes = np.zeros((2, 2, len(rows)), dtype=np.int64)
        for at, (figures, mine) in enumerate(((self._small, small), (self._large, ~small))):
            self._follow(figures, rows[mine])
            for of, (quantity, column) in enumerate(((figures.splits, 3), (figures.split_bytes, 4))):
                course = rows[mine, column]
                changes[at, of, mine] = np.diff(course, prepend=quantity.current)
                quantity.follow(changes[at, of, mine])
        self._follow(self._all, rows)
        self._all.splits.follow(changes[0, 0] + changes[1, 0])
        self._all.split_bytes.follow(changes[0, 1] + changes[1, 1])

    @staticmethod
    def _follow(figures: _Figures, rows: Numbers) -> None:
        figures.count.follow(np.sign(rows[:, 0]))
        figures.bytes.follow(rows[:, 0])
        figures.requested.follow(rows[:, 1])

"""One pool of a GPU's memory: segments from the driver, cut into spans as CUDACachingAllocator.cpp cuts them."""

from __future__ import annotations

from bisect import bisect_left, insort

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


class Span:
    """Neighbouring addresses in one segment: a storage's memory, or free."""

    __slots__ = ("address", "after", "before", "is_free", "pool", "requested", "row", "size")

    def __init__(self, pool: Pool, address: int, size: int, before: Span | None, after: Span | None) -> None:
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
        self.free: list[tuple[int, int, Span]] = []
        """(size, address, span), sorted: the first that is large enough is the best fit."""
        self.segments: dict[int, Span] = {}
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

    def take(self, size_bytes: int) -> Span | None:
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
            tail = span.after = Span(self, address + size_bytes, rest, span, after)
            if after is not None:
                after.before = tail
            insort(free, (rest, tail.address, tail))
        span.is_free = False
        self.allocated += size_bytes
        return span

    def give_back(self, span: Span, size_bytes: int) -> None:
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
        span = self.segments[address] = Span(self, address, size_bytes, None, None)
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

    def _forget(self, span: Span) -> None:
        del self.free[bisect_left(self.free, (span.size, span.address))]

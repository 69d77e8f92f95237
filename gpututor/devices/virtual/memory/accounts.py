"""The memory of a virtual GPU: one block for each storage, counted as CUDA's allocator counts."""

from __future__ import annotations

import torch

GRANULE = 512
"""CUDA's allocator gives memory in multiples of this many bytes."""
SEGMENT = 2 << 20
"""It asks the driver for memory in multiples of this many bytes, and keeps it."""


def rounded(size_bytes: int, unit: int = GRANULE) -> int:
    """`size_bytes` up to the next multiple of `unit`."""
    return -(-size_bytes // unit) * unit


def in_words(size_bytes: int) -> str:
    """As CUDA's allocator writes a size: `20.00 GiB`."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size_bytes >= size:
            return f"{size_bytes / size:.2f} {unit}"
    return f"{size_bytes} bytes"


class DeviceMemory:
    """The accounts of one GPU's memory, in bytes.

    Counting needs no lock: each update is one statement on whole numbers, between two points where threads can change.
    """

    __slots__ = ("allocated", "index", "peak", "peak_reserved", "reserved", "total")

    def __init__(self, index: int, total: int) -> None:
        self.index = index
        self.total = total
        self.allocated = 0
        self.peak = 0
        self.reserved = 0
        self.peak_reserved = 0

    @property
    def free(self) -> int:
        """What the driver would call free: everything that was not asked from it."""
        return self.total - self.reserved

    def expect(self, size_bytes: int) -> None:
        """Raises CUDA's out-of-memory error if a block of that size would not fit; takes nothing."""
        if self.allocated + rounded(size_bytes) > self.total:
            raise self.out_of_memory(size_bytes)

    def take(self, size_bytes: int) -> None:
        """Count `size_bytes` (a multiple of 512) as allocated."""
        allocated = self.allocated + size_bytes
        if allocated > self.total:
            raise self.out_of_memory(size_bytes)
        self.allocated = allocated
        if allocated > self.peak:
            self.peak = allocated
        if allocated > self.reserved:
            self.reserved = min(rounded(allocated, SEGMENT), self.total)
            self.peak_reserved = max(self.peak_reserved, self.reserved)

    def empty_cache(self) -> None:
        """Give back to the driver what holds no tensor."""
        self.reserved = min(rounded(self.allocated, SEGMENT), self.total)

    def reset_peak(self) -> None:
        self.peak = self.allocated
        self.peak_reserved = self.reserved

    def out_of_memory(self, size_bytes: int) -> torch.OutOfMemoryError:
        """CUDA's error, in its words (c10/cuda/CUDACachingAllocator.cpp)."""
        unused = self.reserved - self.allocated
        reserved = in_words(self.reserved)
        allocated = in_words(self.allocated)
        return torch.OutOfMemoryError(
            f"CUDA out of memory. Tried to allocate {in_words(size_bytes)}. GPU {self.index} has a total capacity of "
            f"{in_words(self.total)} of which {in_words(self.free)} is free. Including non-PyTorch memory, this "
            f"process has {reserved} memory in use. Of the allocated memory {allocated} is allocated "
            f"by PyTorch, and {in_words(unused)} is reserved by PyTorch but unallocated. If reserved but unallocated "
            "memory is large try setting PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See "
            "documentation for Memory Management  "
            "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"
        )


class Block:
    """The device memory of one storage; every view of it holds the same block, and the last one frees it."""

    __slots__ = ("__weakref__", "_memory", "size_bytes")

    def __init__(self, memory: DeviceMemory, size_bytes: int) -> None:
        size_bytes = -(-size_bytes // GRANULE) * GRANULE
        self.size_bytes = 0
        self._memory = memory
        memory.take(size_bytes)
        self.size_bytes = size_bytes

    def grow(self, size_bytes: int) -> None:
        """The storage was enlarged in place."""
        more = rounded(size_bytes) - self.size_bytes
        if more > 0:
            self._memory.take(more)
            self.size_bytes += more

    def __del__(self) -> None:
        self._memory.allocated -= self.size_bytes

"""What the driver's own allocations cost the host: estimates, by what cudaMalloc, cudaFree and cudaHostAlloc take.

cudaMalloc takes some 100 µs and about half a millisecond for 1 GiB, whose pages are mapped; cudaFree waits for all work
of the device first (CUDA Runtime API, "cudaFree"), then unmaps them. Imports no torch.
"""

from __future__ import annotations

_ALLOCATION_NS, _FREE_NS, _PER_MIB_NS = 100_000, 60_000, 400


def allocation_ns(size_bytes: int) -> int:
    """Nanoseconds of the host for a new segment of device memory."""
    return _ALLOCATION_NS + size_bytes * _PER_MIB_NS // 2**20


def free_ns(segments: int, size_bytes: int) -> int:
    """The same for giving so many segments back, of so many bytes together; the wait is not included."""
    return segments * _FREE_NS + size_bytes * _PER_MIB_NS // 2**20

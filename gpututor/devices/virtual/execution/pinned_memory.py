"""Page-locked memory of the host, cached in blocks of powers of two (aten/src/ATen/core/CachingHostAllocator.h).

A block is reused once its tensor is freed and the copies that use it are done. Only new blocks cost time, because
cudaHostAlloc touches and locks every page.
"""

from __future__ import annotations

import weakref
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from gpututor.devices.virtual import torch_private
from gpututor.devices.virtual.clock.machine_clock import Key
from gpututor.devices.virtual.clock.timeline import EventMarker
from gpututor.devices.virtual.machine import VirtualMachine
from gpututor.devices.virtual.memory.pool import Quantity

_LOCKED_BYTES_PER_S = 2e9
"""Rate of page-locking untouched pages. An estimate."""
_LOCK_NS = 50_000
"""Nanoseconds of a call that locks pages. An estimate."""
_QUANTITIES = ("allocations", "allocated_bytes", "active_requests", "active_bytes")


@dataclass(slots=True, eq=False)
class _Block:
    memory: torch.UntypedStorage
    size: int
    streams: set[Key] = field(default_factory=set)
    """The streams whose copies used it."""


@dataclass(slots=True)
class _Times:
    """Times of calls of the driver, in microseconds."""

    lengths: list[float] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        lengths = self.lengths
        total, count = sum(lengths), len(lengths)
        longest, shortest = max(lengths, default=0.0), min(lengths, default=0.0)
        return {
            "total": total,
            "max": longest,
            "min": shortest,
            "count": count,
            "avg": total / count if count else 0.0,
        }


class PinnedMemory:
    """The caching allocator of a machine's page-locked memory."""

    def __init__(self, machine: VirtualMachine) -> None:
        self._clock = machine.clock
        self._free: dict[int, list[_Block]] = {}
        """Free blocks, by size in bytes."""
        self._held: list[tuple[_Block, list[tuple[Key, EventMarker]]]] = []
        """Blocks whose tensors are freed but that copies still use, with the events of these copies."""
        self._gone: deque[_Block] = deque()
        """Blocks whose tensors were freed since the last call: destructors only append here."""
        self._by_storage: dict[int, _Block] = {}
        self.forget()
        self._quantities = {name: Quantity() for name in _QUANTITIES}

    def take(self, size_bytes: int) -> torch.UntypedStorage:
        """Return a storage of `size_bytes`, which must be positive, in page-locked memory."""
        self._settle()
        size = 1 << (size_bytes - 1).bit_length()
        free = self._free.setdefault(size, [])
        if free:
            block = free.pop()
        else:
            block = _Block(torch.UntypedStorage(size), size)
            began = self._clock.host.now
            self._clock.host.spend(_LOCK_NS + round(size / _LOCKED_BYTES_PER_S * 1e9))
            self._alloc_times.lengths.append((self._clock.host.now - began) / 1e3)
            self._count("allocations", 1, "allocated_bytes", size)
        self._count("active_requests", 1, "active_bytes", size)
        storage: torch.UntypedStorage = block.memory[0:size_bytes]
        key = storage._cdata
        self._by_storage[key] = block
        weakref.finalize(storage, lambda: self._gone.append(self._by_storage.pop(key)))
        return storage

    def used(self, tensor: torch.Tensor, stream: Key) -> None:
        """Record that an asynchronous copy on a stream uses a tensor's memory."""
        block = self._by_storage.get(torch_private.storage_id(tensor))
        if block is not None:
            block.streams.add(stream)

    def empty_cache(self) -> None:
        """Return all unused blocks to the driver."""
        self._settle()
        for size, blocks in self._free.items():
            for _ in blocks:
                self._clock.host.spend(_LOCK_NS)
                self._free_times.lengths.append(_LOCK_NS / 1e3)
                self._count("allocations", -1, "allocated_bytes", -size)
        self._free.clear()

    def figures(self) -> dict[str, Any]:
        """Return the statistics nested as in `torch._C._cuda_hostMemoryStats`."""
        self._settle()
        return {
            **{name: quantity.as_dict() for name, quantity in self._quantities.items()},
            "num_host_alloc": len(self._alloc_times.lengths),
            "num_host_free": len(self._free_times.lengths),
            "host_alloc_time": self._alloc_times.as_dict(),
            "host_free_time": self._free_times.as_dict(),
        }

    def reset_peaks(self) -> None:
        self._settle()
        for quantity in self._quantities.values():
            quantity.reset_peak()

    def reset_accumulated(self) -> None:
        self._settle()
        for quantity in self._quantities.values():
            quantity.forget()
        self.forget()

    def forget(self) -> None:
        """Reset the counts of the driver's calls."""
        self._alloc_times, self._free_times = _Times(), _Times()

    def _settle(self) -> None:
        """Record the events of blocks without a tensor; free those whose events are reached (`process_events`)."""
        clock = self._clock
        while self._gone:
            block = self._gone.popleft()
            events = [(key, clock.record(*key)) for key in sorted(block.streams)]
            block.streams.clear()
            self._held.append((block, events))
        held = []
        for block, events in self._held:
            if all(clock.has_passed(key[0], mark) for key, mark in events):
                self._free.setdefault(block.size, []).append(block)
                self._count("active_requests", -1, "active_bytes", -block.size)
            else:
                held.append((block, events))
        self._held = held

    def _count(self, number: str, count: int, size: str, size_bytes: int) -> None:
        self._quantities[number].follow(np.array([count]))
        self._quantities[size].follow(np.array([size_bytes]))


_of_machines: weakref.WeakKeyDictionary[VirtualMachine, PinnedMemory] = weakref.WeakKeyDictionary()


def pinned_memory(machine: VirtualMachine) -> PinnedMemory:
    memory = _of_machines.get(machine)
    if memory is None:
        memory = _of_machines[machine] = PinnedMemory(machine)
    return memory

"""Page-locked memory: what it costs the host to lock pages, and to copy into them.

Fresh pages are touched and locked one after another (cudaHostAlloc); PyTorch keeps what is freed, in blocks of a power
of two of bytes, and hands it out again (aten/src/ATen/core/CachingHostAllocator.h).
"""

from __future__ import annotations

import weakref
from collections import Counter

from gpututor.devices.virtual.machine import VirtualMachine

_LOCKED_BYTES_PER_S = 2e9
"""An estimate, for pages that nobody touched before."""
_CALL_NS = 50_000
_kept: weakref.WeakKeyDictionary[VirtualMachine, Counter[int]] = weakref.WeakKeyDictionary()
"""Blocks of each size that were page-locked and freed."""


def lock(machine: VirtualMachine, storage: object, size_bytes: int) -> None:
    """`storage` gets page-locked memory; its block is free when it dies."""
    if size_bytes <= 0:
        return
    block = 1 << (size_bytes - 1).bit_length()
    kept = _kept.setdefault(machine, Counter())
    if kept[block] > 0:
        kept[block] -= 1
    else:
        machine.clock.host.spend(_CALL_NS + round(block / _LOCKED_BYTES_PER_S * 1e9))
    weakref.finalize(storage, _free, kept, block)


def copied(machine: VirtualMachine, began: int, size_bytes: int) -> None:
    """One thread copied so many bytes into page-locked memory since `began`, no faster than the driver stages them."""
    if machine.gpus:
        seconds = size_bytes / machine.gpus[0].spec.pageable_bytes_per_s
        machine.clock.host.wait_until(began + round(seconds * 1e9))


def _free(kept: Counter[int], block: int) -> None:
    kept[block] += 1

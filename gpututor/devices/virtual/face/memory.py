"""What `torch.cuda` says about memory while the virtual GPU is on.

Most of it is torch's own Python (`memory_stats`, `memory_summary`): it reaches these functions by their C++ names.
"""

from __future__ import annotations

from typing import Any

from gpututor.devices.virtual.face.devices import gpu_of
from gpututor.devices.virtual.machine import active
from gpututor.devices.virtual.memory.pool import Pool, Span


def memory_allocated(device: Any = None) -> int:
    return gpu_of(device).memory.allocated if active().gpus else 0


def max_memory_allocated(device: Any = None) -> int:
    return gpu_of(device).memory.peak_allocated if active().gpus else 0


def memory_reserved(device: Any = None) -> int:
    return gpu_of(device).memory.reserved if active().gpus else 0


def max_memory_reserved(device: Any = None) -> int:
    return gpu_of(device).memory.statistics.peak_reserved if active().gpus else 0


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """(free, total) bytes, as the driver sees them."""
    memory = gpu_of(device).memory
    return memory.free, memory.total


def nested_statistics(index: int) -> dict[str, Any]:
    """All figures of a GPU's allocator: figure, pool, metric."""
    return active().gpu(index).memory.figures()


def reset_peaks(index: int) -> None:
    active().gpu(index).memory.reset_peaks()


def reset_accumulated(index: int) -> None:
    active().gpu(index).memory.reset_accumulated()


def set_fraction(fraction: float, index: int) -> None:
    active().gpu(index).memory.fraction = fraction


def fraction(index: int) -> float:
    return active().gpu(index).memory.fraction


def empty_cache() -> None:
    for gpu in active().gpus:
        gpu.memory.empty_cache()


def allocator_backend() -> str:
    return "native"


def snapshot(mempool: Any = None) -> dict[str, Any]:
    """Every segment with its blocks; no history is kept, so there are no traces."""
    segments = []
    for gpu in active().gpus:
        gpu.memory.settle()
        for pool in (gpu.memory.small, gpu.memory.large):
            segments += [_segment(gpu.index, pool, address, first) for address, first in pool.segments.items()]
    return {
        "segments": sorted(segments, key=lambda one: int(one["address"])),
        "device_traces": [[] for _ in active().gpus],
        "allocator_settings": {},
        "external_annotations": [],
    }


def _segment(index: int, pool: Pool, address: int, first: Span) -> dict[str, Any]:
    blocks: list[dict[str, Any]] = []
    span: Span | None = first
    while span is not None:
        blocks.append(
            {
                "address": span.address,
                "size": span.size,
                "requested_size": span.requested,
                "state": "inactive" if span.is_free else "active_allocated",
                "frames": [],
            }
        )
        span = span.after
    in_use = [block for block in blocks if block["state"] != "inactive"]
    return {
        "device": index,
        "address": address,
        "total_size": sum(block["size"] for block in blocks),
        "allocated_size": sum(block["size"] for block in in_use),
        "active_size": sum(block["size"] for block in in_use),
        "requested_size": sum(block["requested_size"] for block in in_use),
        "stream": 0,
        "segment_type": "small" if pool.is_small else "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": blocks,
    }

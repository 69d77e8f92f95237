"""What `torch.cuda` says about memory while the virtual GPU is on."""

from __future__ import annotations

from typing import Any

from gpututor.devices.virtual.face.devices import gpu_of
from gpututor.devices.virtual.machine import active


def memory_allocated(device: Any = None) -> int:
    return gpu_of(device).memory.allocated if active().gpus else 0


def max_memory_allocated(device: Any = None) -> int:
    return gpu_of(device).memory.peak if active().gpus else 0


def memory_reserved(device: Any = None) -> int:
    return gpu_of(device).memory.reserved if active().gpus else 0


def max_memory_reserved(device: Any = None) -> int:
    return gpu_of(device).memory.peak_reserved if active().gpus else 0


def reset_peak_memory_stats(device: Any = None) -> None:
    gpu_of(device).memory.reset_peak()


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """(free, total) bytes, as the driver sees them."""
    memory = gpu_of(device).memory
    return memory.free, memory.total


def memory_stats(device: Any = None) -> dict[str, int]:
    """The figures that are kept: allocated and reserved bytes, now and at most."""
    if not active().gpus:
        return {}
    memory = gpu_of(device).memory
    return {
        "allocated_bytes.all.current": memory.allocated,
        "allocated_bytes.all.peak": memory.peak,
        "reserved_bytes.all.current": memory.reserved,
        "reserved_bytes.all.peak": memory.peak_reserved,
    }


def empty_cache() -> None:
    for gpu in active().gpus:
        gpu.memory.empty_cache()

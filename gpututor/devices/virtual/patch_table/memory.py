"""`torch.cuda`'s memory."""

from __future__ import annotations

from gpututor.devices.virtual.face import devices, memory
from gpututor.devices.virtual.patch_table.rows import each, refuse
from gpututor.devices.virtual.patches import Patch

_QUESTIONS = {
    "memory_allocated": memory.memory_allocated,
    "max_memory_allocated": memory.max_memory_allocated,
    "memory_reserved": memory.memory_reserved,
    "max_memory_reserved": memory.max_memory_reserved,
    "mem_get_info": memory.mem_get_info,
}
_REFUSED = (
    *("list_gpu_processes", "caching_allocator_alloc", "caching_allocator_delete", "caching_allocator_enable"),
    *("change_current_allocator", "host_memory_stats", "reset_accumulated_host_memory_stats"),
    *("reset_peak_host_memory_stats", "host_memory_stats_as_nested_dict"),
)

PATCHES: tuple[Patch, ...] = (
    *each("torch.cuda", "asked often: without the detour through all figures", **_QUESTIONS),
    *each("torch.cuda.memory", "the same functions by their other name", **_QUESTIONS),
    *each(
        "torch._C",
        "memory is counted in Python: these are what torch.cuda.memory's own functions call",
        _cuda_memoryStats=memory.nested_statistics,
        _cuda_resetPeakMemoryStats=memory.reset_peaks,
        _cuda_resetAccumulatedMemoryStats=memory.reset_accumulated,
        _cuda_setMemoryFraction=memory.set_fraction,
        _cuda_getMemoryFraction=memory.fraction,
        _cuda_emptyCache=memory.empty_cache,
        _cuda_memorySnapshot=memory.snapshot,
        _cuda_getAllocatorBackend=memory.allocator_backend,
    ),
    *each(
        "torch.cuda.memory",
        "names that it took from torch.cuda when it was imported",
        is_initialized=devices.is_initialized,
        _lazy_init=devices.lazy_init,
    ),
    *refuse("torch.cuda", *_REFUSED),
    *refuse("torch.cuda.memory", *_REFUSED, "_record_memory_history"),
    *refuse("torch.cuda", "utilization", "temperature", "power_draw", "clock_rate"),
    *refuse("torch.cuda", "memory_usage", "device_memory_used"),
)

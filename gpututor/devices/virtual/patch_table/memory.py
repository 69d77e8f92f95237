"""`torch.cuda`'s memory."""

from __future__ import annotations

from gpututor.devices.virtual.face import memory
from gpututor.devices.virtual.patch_table.rows import each, refuse
from gpututor.devices.virtual.patches import Patch

PATCHES: tuple[Patch, ...] = (
    *each(
        "torch.cuda",
        "memory is counted in Python",
        memory_allocated=memory.memory_allocated,
        max_memory_allocated=memory.max_memory_allocated,
        memory_reserved=memory.memory_reserved,
        max_memory_reserved=memory.max_memory_reserved,
        reset_peak_memory_stats=memory.reset_peak_memory_stats,
        reset_max_memory_allocated=memory.reset_peak_memory_stats,
        mem_get_info=memory.mem_get_info,
        memory_stats=memory.memory_stats,
        empty_cache=memory.empty_cache,
    ),
    *refuse(
        "torch.cuda",
        *("memory_summary", "memory_snapshot", "memory_stats_as_nested_dict", "set_per_process_memory_fraction"),
        *("list_gpu_processes", "caching_allocator_alloc", "caching_allocator_delete", "change_current_allocator"),
        *("utilization", "temperature", "power_draw", "clock_rate", "memory_usage", "device_memory_used"),
    ),
)

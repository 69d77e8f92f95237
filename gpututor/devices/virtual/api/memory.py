"""Memory functions of `torch.cuda`.

Most of them are torch's own Python (`memory_stats`, `memory_summary`), which calls these functions by their C++ names.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from gpututor.devices.virtual import cuda_errors, torch_private
from gpututor.devices.virtual.api.devices import gpu_of, is_initialized
from gpututor.devices.virtual.api.graphs import new_pool
from gpututor.devices.virtual.execution import waits
from gpututor.devices.virtual.execution.pinned_memory import pinned_memory
from gpututor.devices.virtual.machine import VirtualGpu, active_machine
from gpututor.devices.virtual.memory.allocator import CachingAllocator
from gpututor.devices.virtual.memory.history import ACTIONS, MemoryHistory
from gpututor.devices.virtual.memory.pool import Block, Pool
from gpututor.devices.virtual.memory.settings import AllocatorSettings, parse_settings
from gpututor.devices.virtual.memory.stream_pools import PoolId


def _started_memory(device: Any) -> CachingAllocator | None:
    """Return the allocator of a device; None before CUDA has started, when all statistics are 0."""
    if not is_initialized():
        return None
    index = active_machine().current.index if device is None else torch_private.cuda_device_index(device, optional=True)
    return _memory_of(index)


def _memory_of(index: int) -> CachingAllocator:
    """Return a GPU's allocator. Raises the allocator's own error for an invalid index."""
    gpus = active_machine().gpus
    if not 0 <= index < len(gpus):
        raise cuda_errors.invalid_device_argument(index)
    return gpus[index].memory


def memory_allocated(device: Any = None) -> int:
    memory = _started_memory(device)
    return 0 if memory is None else memory.allocated


def max_memory_allocated(device: Any = None) -> int:
    memory = _started_memory(device)
    return 0 if memory is None else memory.peak_allocated


def memory_reserved(device: Any = None) -> int:
    memory = _started_memory(device)
    return 0 if memory is None else memory.reserved


def max_memory_reserved(device: Any = None) -> int:
    memory = _started_memory(device)
    return 0 if memory is None else memory.statistics.peak_reserved


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Return (free, total) bytes, as the driver sees them."""
    memory = gpu_of(device).memory
    return memory.free, memory.total


def nested_statistics(index: int) -> dict[str, Any]:
    """Return all statistics of a GPU's allocator, as `[statistic][pool][metric]`."""
    return _memory_of(index).figures()


def _to_reset(index: Any, call: str) -> CachingAllocator:
    """Return a GPU's allocator. Raises the allocator's own error before CUDA has started, even for index 0."""
    if not isinstance(index, int):
        raise RuntimeError(f"invalid argument to {call}")  # torch/csrc/cuda/Module.cpp
    if not is_initialized():
        raise cuda_errors.invalid_device_argument(index)
    return _memory_of(index)


def reset_peaks(index: Any) -> None:
    _to_reset(index, "reset_peak_memory_stats").reset_peaks()


def reset_accumulated(index: Any) -> None:
    _to_reset(index, "reset_accumulated_memory_stats").reset_accumulated()


def set_fraction(fraction: float, index: int) -> None:
    active_machine().gpu(index).memory.fraction = fraction


def fraction(index: int) -> float:
    return active_machine().gpu(index).memory.fraction


def empty_cache() -> None:
    machine = active_machine()
    machine.check()
    for gpu in machine.gpus:
        gpu.memory.empty_cache()


def empty_host_cache() -> None:
    pinned_memory(active_machine()).empty_cache()


def host_statistics() -> dict[str, Any]:
    """Return all statistics of the allocator of page-locked memory, as `[statistic][metric]`."""
    return pinned_memory(active_machine()).figures()


def reset_host_peaks() -> None:
    pinned_memory(active_machine()).reset_peaks()


def reset_host_accumulated() -> None:
    pinned_memory(active_machine()).reset_accumulated()


def snapshot(mempool: Sequence[int] | None = None) -> dict[str, Any]:
    """Return all segments, or one pool's segments, with their blocks, and the recorded history.

    `mempool` is a pool's id, two numbers. A third element that is false leaves out the history.
    """
    first, second, *rest = mempool or (0, 0)
    wanted, with_history = (first, second), all(rest)
    segments = []
    for gpu in active_machine().gpus:
        gpu.memory.settle()
        if gpu.memory.history is not None:
            gpu.memory.history.add("snapshot", 0, 0)
        for pool in gpu.memory.pools:
            if wanted in ((0, 0), pool.pool_id):
                for head in pool.segments.values():
                    segments += [_segment(gpu, pool, blocks) for blocks in _mapped(head)]
    return {
        "segments": sorted(segments, key=lambda segment: int(segment["address"])),
        "device_traces": [
            gpu.memory.history.entries() if with_history and gpu.memory.history is not None else []
            for gpu in active_machine().gpus
        ],
        "allocator_settings": _settings().as_dict(),
        "external_annotations": [],
    }


_CONTEXTS = {None: (), "state": (), "alloc": ("alloc", "segment_alloc", "segment_map", "oom"), "all": ACTIONS}
"""Actions whose events have a stack, by the argument `context`. Live blocks have a stack unless it is None."""


def record_history(
    enabled: str | None,
    context: str | None = "all",
    stacks: str = "all",
    most_entries: int = sys.maxsize,
    clear_history: bool = False,
    compile_context: bool = False,
    global_record_annotations: bool = False,
    skip_actions: Sequence[str] = (),
    record_pinned_host_memory: bool = False,
    record_cuda: bool = True,
) -> None:
    """Start recording all GPUs' memory history: `all` events, or the `state` of live blocks. None stops it.

    PyTorch passes the last two arguments from 2.14 on.
    """
    if record_pinned_host_memory or not record_cuda:
        raise cuda_errors.unsupported("the history of pinned memory", "Leave out record_pinned_host_memory.")
    if enabled not in (None, "state", "all"):
        raise RuntimeError("expected state to be 'state', 'all', or None")  # torch/csrc/cuda/memory_snapshot.cpp
    if context not in _CONTEXTS:
        raise RuntimeError("expected context to be 'state', 'alloc', 'all', or None")
    if unknown := [action for action in skip_actions if action not in ACTIONS]:
        raise RuntimeError(f"unknown action {unknown[0]!r}: choose from {', '.join(ACTIONS)}")
    machine = active_machine()
    for gpu in machine.gpus:
        if enabled is None:
            gpu.memory.history = None
            continue
        if gpu.memory.history is None or clear_history:
            gpu.memory.history = MemoryHistory(lambda: machine.clock.host.now)
        gpu.memory.history.configure(
            most_entries=most_entries,
            with_entries=enabled == "all",
            contexts=_CONTEXTS[context],
            stacks_of_blocks=context is not None,
            skipped=skip_actions,
        )


def record_history_legacy(
    enabled: bool, record_context: bool = True, most_entries: int = 1, traces_have_context: bool = False, *_: Any
) -> None:
    """Record the history with the older arguments: without `traces_have_context`, only live blocks have stacks."""
    context = ("all" if traces_have_context else "state") if record_context else None
    record_history(("all" if most_entries > 1 else "state") if enabled else None, context, most_entries=most_entries)


def _mapped(first: Block) -> Iterator[list[Block]]:
    """Yield each run of adjacent mapped blocks: a whole segment, or a part of an expandable segment."""
    run = list[Block]()
    block: Block | None = first
    while block is not None:
        if block.is_mapped:
            run.append(block)
        elif run:
            yield run
            run = []
        block = block.after
    if run:
        yield run


def _segment(gpu: VirtualGpu, pool: Pool, run: list[Block]) -> dict[str, Any]:
    blocks: list[dict[str, Any]] = []
    history = gpu.memory.history
    for block in run:
        state = "inactive" if block.is_free else "active_pending_free" if block.is_pending else "active_allocated"
        sizes = {"address": block.address, "size": block.size, "requested_size": block.requested}
        frames = [] if block.is_free or history is None else history.frames_of(block.address)
        blocks.append({**sizes, "state": state, "frames": frames})
    active = [block for block in run if not block.is_free]
    in_use = [block for block in active if not block.is_pending]
    before, after = run[0].before, run[-1].after
    return {
        "device": gpu.index,
        "address": run[0].address,
        "total_size": sum(entry["size"] for entry in blocks),
        "allocated_size": sum(block.counted for block in in_use),
        "active_size": sum(block.counted for block in active),
        "requested_size": sum(block.requested for block in in_use),
        "stream": waits.handle_of(gpu.index, pool.stream),
        "segment_type": "small" if pool.is_small else "large",
        "segment_pool_id": pool.pool_id,
        # An expandable segment has addresses without memory before or after this run.
        "is_expandable": before is not None or after is not None,
        "frames": [],
        "blocks": blocks,
    }


class MemPool:
    """`torch.cuda.MemPool`: a private memory pool for `torch.cuda.use_mem_pool` and graphs."""

    def __init__(self, allocator: Any = None, use_on_oom: bool = False, no_split: bool = False) -> None:
        for name, value in (("allocator", allocator), ("use_on_oom", use_on_oom), ("no_split", no_split)):
            if value:
                raise cuda_errors.unsupported(f"torch.cuda.MemPool({name}=...)", "Leave the argument out.")
        self._memory = active_machine().current.memory
        self._id = new_pool()
        self._memory.graphs.open(self._id)

    @property
    def id(self) -> PoolId:
        return self._id

    @property
    def allocator(self) -> None:
        return None

    def use_count(self) -> int:
        return self._memory.graphs.by_id[self._id].graphs

    def snapshot(self, include_traces: bool = True) -> list[dict[str, Any]]:
        segments: list[dict[str, Any]] = snapshot((*self._id, include_traces))["segments"]
        return segments

    def __del__(self) -> None:
        if hasattr(self, "_id"):
            self._memory.close_pool(self._id)


MemPool.__module__ = "torch.cuda.memory"


def begin_pool(index: int, pool_id: PoolId) -> None:
    active_machine().gpu(index).memory.begin_pool(pool_id)


def end_pool(index: int, pool_id: PoolId) -> None:
    active_machine().gpu(index).memory.end_pool(pool_id)


def release_pool(index: int, pool_id: PoolId) -> None:
    """Decrement the pool's use count, at the end of a block of `torch.cuda.use_mem_pool`."""
    active_machine().gpu(index).memory.graphs.close(pool_id)


def _settings() -> AllocatorSettings:
    gpus = active_machine().gpus
    return gpus[0].memory.settings if gpus else AllocatorSettings()


def set_allocator_settings(text: str) -> None:
    """Change the settings of all GPUs' allocators. Raises the errors of `parse_settings`."""
    settings = parse_settings(text)
    for gpu in active_machine().gpus:
        gpu.memory.settings = settings


def allocator_settings() -> str:
    """Return the settings as they were written."""
    return _settings().text

"""The caching allocator: segments, blocks and the statistics of `torch.cuda.memory`."""

from __future__ import annotations

import gc
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpututor.devices.virtual import VirtualMachine, virtual_gpu
from gpututor.devices.virtual.memory.allocator import Allocation, CachingAllocator
from gpututor.devices.virtual.memory.pool import Block, Pool
from tests.support.threads import started

MIB = 1 << 20


def _spans(first: Block) -> list[Block]:
    spans, span = [], first
    while True:
        spans.append(span)
        if span.after is None:
            return spans
        assert span.after.before is span
        span = span.after


def _check(pool: Pool) -> None:
    """Assert the invariants of a pool."""
    free = []
    for address, first in pool.segments.items():
        spans = _spans(first)
        assert first.address == address
        assert first.before is None
        for item, other in pairwise(spans):
            assert item.address + item.size == other.address
            assert not (item.is_free and other.is_free), "two free neighbours are one"
        free += [(item.size, item.address) for item in spans if item.is_free]
    assert sorted(free) == [(size, address) for size, address, _ in pool.free]
    assert pool.reserved == sum(span.size for first in pool.segments.values() for span in _spans(first))
    idle = [first for first in pool.segments.values() if first.is_free and first.after is None]
    assert (pool.idle, pool.idle_bytes) == (len(idle), sum(block.size for block in idle))


def _check_all_free(memory: CachingAllocator) -> None:
    assert memory.allocated == 0
    for pool in (memory.small, memory.large):
        _check(pool)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("take"), st.sampled_from([1, 512, 513, 40_000, MIB, MIB + 1, 3 * MIB, 12 * MIB + 5])),
            st.tuples(st.just("drop"), st.integers(0, 30)),
            st.tuples(st.just("empty"), st.just(0)),
        ),
        max_size=60,
    )
)
def test_invariants_hold_during_random_programs(steps: list[tuple[str, int]]) -> None:
    memory = CachingAllocator(0, 64 * MIB)
    live: list[Allocation] = []
    for step, number in steps:
        if step == "take":
            try:
                live.append(Allocation(memory, number))
            except torch.OutOfMemoryError:
                assert memory.allocated + number > 20 * MIB, "there was room"
        elif step == "drop" and live:
            live.pop(number % len(live))
        elif step == "empty":
            memory.empty_cache()
        assert memory.allocated == sum(block.size_bytes for block in live)
        assert memory.allocated <= memory.reserved <= memory.total
        addresses = sorted((block.address, block.size_bytes) for block in live)
        assert all(start + size <= after for (start, size), (after, _) in pairwise(addresses))
        for pool in (memory.small, memory.large):
            _check(pool)
        figures = memory.statistics.as_nested_dict()
        assert figures["allocated_bytes"]["all"]["current"] == memory.allocated
        assert figures["allocation"]["all"]["current"] == len(live)
        assert figures["reserved_bytes"]["all"]["current"] == memory.reserved
        for named in figures.values():
            if isinstance(named, dict) and "all" in named:
                for metric in ("current", "allocated", "freed"):
                    assert named["all"][metric] == named["small_pool"][metric] + named["large_pool"][metric]
                assert named["all"]["current"] <= named["all"]["peak"]
    live.clear()
    memory.empty_cache()
    assert (memory.allocated, memory.reserved) == (0, 0)


def test_freed_blocks_are_merged_and_reused_by_best_fit() -> None:
    memory = CachingAllocator(0, 1 << 30)
    blocks = [Allocation(memory, size) for size in (1024, 2048, 512, 4096, 512)]
    addresses = [block.address for block in blocks]
    del blocks[3], blocks[1]
    hole = Allocation(memory, 1500)
    assert hole.address == addresses[1], "the smallest hole that is large enough"
    blocks.clear()
    del hole
    whole = Allocation(memory, MIB)
    assert whole.address == addresses[0]
    assert memory.reserved == 2 * MIB


def test_a_full_gpu_frees_its_cache_before_it_is_out_of_memory() -> None:
    with virtual_gpu(memory_bytes=64 * MIB):
        small = [torch.zeros(MIB, dtype=torch.uint8, device="cuda") for _ in range(4)]
        small.clear()
        assert torch.cuda.memory_reserved() == 4 * MIB
        large = torch.zeros(62 * MIB, dtype=torch.uint8, device="cuda")
        assert torch.cuda.memory_reserved() == 62 * MIB
        assert torch.cuda.memory_stats()["num_alloc_retries"] == 1
        with pytest.raises(torch.OutOfMemoryError) as caught:
            torch.zeros(3 * MIB, dtype=torch.uint8, device="cuda")
        assert str(caught.value).startswith(
            "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 64.00 MiB of which "
            "2.00 MiB is free. Including non-PyTorch memory, this process has 62.00 MiB memory in use. "
            "Of the allocated memory 62.00 MiB is allocated by PyTorch, and 0 bytes is reserved by PyTorch but "
            "unallocated."
        )
        assert torch.cuda.memory_stats()["num_ooms"] == 1
        del large


def test_fragmentation_can_cause_out_of_memory() -> None:
    with virtual_gpu(memory_bytes=40 * MIB):
        tensors = [torch.zeros(5 * MIB, dtype=torch.uint8, device="cuda") for _ in range(8)]
        assert torch.cuda.memory_reserved() == 40 * MIB
        del tensors[::2]
        assert torch.cuda.memory_allocated() == 20 * MIB
        with pytest.raises(torch.OutOfMemoryError, match=r"and 20\.00 MiB is reserved by PyTorch but unallocated"):
            torch.zeros(6 * MIB, dtype=torch.uint8, device="cuda")
        tensors.append(torch.zeros(5 * MIB, dtype=torch.uint8, device="cuda"))


def test_the_memory_fraction_can_be_set() -> None:
    with virtual_gpu(memory_bytes=100 * MIB):
        torch.cuda.set_per_process_memory_fraction(0.5)
        with pytest.raises(torch.OutOfMemoryError, match=r"50\.00 MiB allowed; "):
            torch.zeros(60 * MIB, dtype=torch.uint8, device="cuda")
        torch.zeros(50 * MIB, dtype=torch.uint8, device="cuda")


def test_stats_summary_and_snapshot_have_torchs_format(two_gpus: VirtualMachine) -> None:
    x = torch.zeros(1000, device="cuda:1")
    y = torch.zeros(10 * MIB, device="cuda:1")
    stats = torch.cuda.memory_stats(1)
    assert stats["allocated_bytes.all.current"] == 4096 + 40 * MIB
    assert stats["requested_bytes.small_pool.current"] == 4000
    assert stats["segment.large_pool.current"] == 1
    assert stats["active.all.peak"] == 2
    del y
    assert torch.cuda.memory_stats(1)["allocation.all.freed"] == 1
    assert torch.cuda.memory_stats(0)["allocation.all.current"] == 0
    torch.cuda.reset_peak_memory_stats(1)
    assert torch.cuda.max_memory_allocated(1) == 4096
    torch.cuda.reset_accumulated_memory_stats(1)
    assert torch.cuda.memory_stats(1)["allocation.all.allocated"] == 0
    summary = torch.cuda.memory_summary(1, abbreviated=True)
    assert "PyTorch CUDA memory summary, device ID 1" in summary
    assert "| Allocated memory      |   4096 B   |" in summary
    segments = torch.cuda.memory_snapshot()
    assert [(segment["device"], segment["segment_type"], segment["total_size"]) for segment in segments] == [
        (1, "small", 2 * MIB),
        (1, "large", 40 * MIB),
    ]
    assert [block["state"] for block in segments[0]["blocks"]] == ["active_allocated", "inactive"]
    assert torch.cuda.get_allocator_backend() == "native"
    assert torch.accelerator.memory_allocated(1) == torch.cuda.memory_allocated(1) == 4096
    del x


def test_concurrent_allocations_keep_the_invariants() -> None:
    memory = CachingAllocator(0, 1 << 30)

    def work() -> None:
        for size in range(1, 400):
            kept = [Allocation(memory, size * 700) for _ in range(3)]
            del kept[1]

    for thread in [started(work) for _ in range(4)]:
        thread.join()
    _check_all_free(memory)


def test_a_garbage_collection_during_an_allocation_is_safe() -> None:
    memory = CachingAllocator(0, 1 << 30)
    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for size in range(1, 300):
            cycle: list[object] = [Allocation(memory, size * 900)]
            cycle.append(cycle)
            del cycle
    finally:
        gc.set_threshold(*before)
    gc.collect()
    _check_all_free(memory)


def test_a_graded_call_does_not_reset_peak_statistics(two_gpus: VirtualMachine) -> None:
    memory = two_gpus.gpus[0].memory
    torch.empty(4 * MIB, dtype=torch.uint8, device="cuda")
    memory.begin_peaks()
    torch.empty(MIB, dtype=torch.uint8, device="cuda")
    assert memory.peak_of_call == MIB
    assert torch.cuda.max_memory_allocated() == torch.cuda.memory_stats()["allocated_bytes.all.peak"] == 4 * MIB
    torch.cuda.reset_peak_memory_stats()
    torch.empty(2 * MIB, dtype=torch.uint8, device="cuda")
    assert memory.peak_of_call == torch.cuda.max_memory_allocated() == 2 * MIB


def test_an_invalid_index_raises_the_allocators_error(two_gpus: VirtualMachine) -> None:
    """The number is printed as a character, as torch 2.13.0+cu130 does on a machine without a GPU."""
    words = "^Invalid device argument \t: did you call init\\?$"
    assert torch.cuda.memory_allocated(9) == torch.cuda.memory_reserved(9) == 0, "CUDA has not started"
    with pytest.raises(RuntimeError, match="Invalid device argument \0"):
        torch.cuda.reset_peak_memory_stats(0)
    torch.cuda.init()
    for ask in (
        torch.cuda.memory_allocated,
        torch.cuda.max_memory_allocated,
        torch.cuda.memory_reserved,
        torch.cuda.max_memory_reserved,
        torch.cuda.memory_stats,
        torch.cuda.reset_peak_memory_stats,
        torch.cuda.reset_accumulated_memory_stats,
    ):
        with pytest.raises(RuntimeError, match=words):
            ask(9)
    torch.cuda.reset_peak_memory_stats(0)


def test_without_gpus_statistics_are_those_of_a_cuda_build() -> None:
    """Values of torch 2.13.0+cu130 on a machine without a GPU."""
    with virtual_gpu(0):
        assert torch.cuda.memory_allocated(9) == torch.cuda.memory_reserved() == 0
        assert torch.cuda.memory_stats() == {}
        with pytest.raises(KeyError, match=r"allocated_bytes\.all\.current"):
            torch.cuda.memory_summary()
        with pytest.raises(RuntimeError, match=r"^invalid argument to reset_peak_memory_stats$"):
            torch.cuda.reset_peak_memory_stats()
        assert torch.accelerator.current_accelerator() == torch.device("cuda")
        assert torch.accelerator.current_accelerator(check_available=True) is None
        assert not torch.accelerator.is_available()
        assert torch.get_device_module() is torch.cpu


def test_a_graded_call_knows_its_segments_and_the_largest_free_block(two_gpus: VirtualMachine) -> None:
    memory = two_gpus.gpus[0].memory
    before = torch.empty(40 * MIB, dtype=torch.uint8, device="cuda")
    del before
    memory.begin_peaks()
    held = torch.empty(16 * MIB, dtype=torch.uint8, device="cuda")
    torch.empty(60 * MIB, dtype=torch.uint8, device="cuda")
    assert memory.segments_of_call() == {
        "reserved": 100 * MIB,
        "reserved_peak": 100 * MIB,
        "largest_free": 60 * MIB,
    }
    torch.cuda.empty_cache()
    memory.begin_peaks()
    assert memory.segments_of_call() == {"reserved": 40 * MIB, "reserved_peak": 40 * MIB, "largest_free": 24 * MIB}
    del held

"""The caching allocator: segments, blocks, pools, and the statistics of `torch.cuda.memory`."""

from __future__ import annotations

import gc
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpututor.devices.virtual import VirtualMachine, virtual_gpu
from gpututor.devices.virtual.memory.allocator import Allocation, CachingAllocator
from gpututor.devices.virtual.memory.pool import Block, Pool
from gpututor.trace.events import Event, Kind
from tests.support.threads import started
from tests.support.virtual_gpus import names_of, traced

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
    blocks = [span for first in pool.segments.values() for span in _spans(first)]
    assert pool.reserved == sum(block.size for block in blocks)
    in_use = [block for block in blocks if not block.is_free]
    assert pool.allocated == sum(block.counted for block in in_use)
    assert pool.tail_bytes == sum(block.size - block.counted for block in in_use)
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


def test_a_graded_call_has_figures_of_its_own_and_resets_none(two_gpus: VirtualMachine) -> None:
    memory = two_gpus.gpus[0].memory
    torch.empty(4 * MIB, dtype=torch.uint8, device="cuda")
    memory.begin_peaks()
    torch.empty(MIB, dtype=torch.uint8, device="cuda")
    assert memory.peak_of_call == MIB
    assert torch.cuda.max_memory_allocated() == torch.cuda.memory_stats()["allocated_bytes.all.peak"] == 4 * MIB
    torch.cuda.reset_peak_memory_stats()
    torch.empty(2 * MIB, dtype=torch.uint8, device="cuda")
    assert memory.peak_of_call == torch.cuda.max_memory_allocated() == 2 * MIB
    torch.cuda.empty_cache()
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


def _large() -> torch.Tensor:
    return torch.empty(4 * MIB, dtype=torch.uint8, device="cuda")


def _block(tensor: Any) -> Any:
    return tensor.untyped_storage()._block


def test_memory_of_a_pool_is_apart_and_is_reused_in_it(two_gpus: VirtualMachine) -> None:
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        inside = _large()
    outside = _large()
    assert torch.cuda.memory_reserved() == 40 * MIB
    (segment,) = pool.snapshot()
    assert segment["segment_pool_id"] == pool.id
    assert segment["address"] <= _block(inside).address < segment["address"] + segment["total_size"]
    place = _block(inside).address
    del inside, outside
    assert _block(_large()).address != place
    with torch.cuda.use_mem_pool(pool):
        assert _block(_large()).address == place


def test_pools_nest_and_the_inner_one_is_used(two_gpus: VirtualMachine) -> None:
    outer, inner = torch.cuda.MemPool(), torch.cuda.MemPool()
    assert outer.id != inner.id
    with torch.cuda.use_mem_pool(outer):
        with torch.cuda.use_mem_pool(inner):
            first = _large()
        assert outer.snapshot() == []
        second = _large()
    assert [len(pool.snapshot()) for pool in (outer, inner)] == [1, 1]
    assert first.device == second.device


def test_a_pool_counts_its_users_and_frees_idle_segments(two_gpus: VirtualMachine) -> None:
    pool = torch.cuda.MemPool()
    assert pool.use_count() == 1
    with torch.cuda.use_mem_pool(pool):
        assert pool.use_count() == 2
        kept = _large()
    assert pool.use_count() == 1
    del pool
    gc.collect()
    assert torch.cuda.memory_reserved() == 20 * MIB
    del kept
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == 0
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        _large()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == 20 * MIB
    del pool
    gc.collect()
    assert torch.cuda.memory_reserved() == 0


def test_other_threads_and_backward_passes_do_not_use_the_pool(two_gpus: VirtualMachine) -> None:
    pool = torch.cuda.MemPool()
    weight = torch.ones(MIB, device="cuda", requires_grad=True)
    loss, seed = weight.square().sum(), torch.ones((), device="cuda")
    kept: list[torch.Tensor] = []
    with torch.cuda.use_mem_pool(pool):
        started(lambda: kept.append(_large())).join()
        loss.backward(seed)
        assert pool.snapshot() == []


def test_a_graph_takes_its_memory_from_the_pool(two_gpus: VirtualMachine) -> None:
    pool = torch.cuda.MemPool()
    graph = torch.cuda.CUDAGraph()
    x = torch.ones(4, device="cuda")
    with torch.cuda.graph(graph, pool=pool.id):  # type: ignore[arg-type]
        y = x + 1
    assert graph.pool() == pool.id
    assert len(pool.snapshot()) == 1
    graph.replay()
    assert y.tolist() == [2.0] * 4


@pytest.mark.parametrize("options", [{"use_on_oom": True}, {"no_split": True}, {"allocator": object()}])
def test_other_kinds_of_pools_are_refused_by_name(two_gpus: VirtualMachine, options: dict[str, object]) -> None:
    with pytest.raises(NotImplementedError, match=next(iter(options))):
        torch.cuda.MemPool(**options)  # type: ignore[arg-type]


def block_of(tensor: Any) -> Allocation:
    block = tensor._block
    assert isinstance(block, Allocation)
    return block


def streams(events: list[Event], kind: Kind) -> list[tuple[str, int]]:
    return [(event.device, event.stream) for event in events if event.kind is kind]


def test_each_thread_records_its_own_last_writer() -> None:
    with virtual_gpu(1, "A100") as machine:
        memory = machine.gpus[0].memory
        x = torch.ones(64, device="cuda").relu()
        mine = memory.of_thread.writer
        results: list[Any] = []

        def other() -> None:
            results.append(memory.of_thread.writer)
            with torch.cuda.stream(torch.cuda.Stream()):
                results.append(block_of(torch.ones(64, device="cuda")).home)

        started(other).join()
        assert results[0] is None
        assert results[1] != 0
        assert mine is not None
        assert memory.of_thread.writer is mine
        assert block_of(x).written is mine


def test_a_peer_copys_result_belongs_to_the_targets_stream() -> None:
    def program() -> None:
        side = torch.cuda.Stream("cuda:1")
        x = torch.ones(64, device="cuda:0")
        with torch.cuda.stream(side):
            y = x.to("cuda:1")
            y.relu_()
            del y

    events = traced(program, gpus=2)
    assert names_of(events, Kind.HAZARD) == []
    there = [stream for device, stream in streams(events, Kind.ALLOCATE) if device == "cuda:1"]
    assert there
    assert 0 not in there
    assert [stream for device, stream in streams(events, Kind.FREE) if device == "cuda:1"] == there


def test_freed_blocks_return_to_their_allocating_stream() -> None:
    def program() -> None:
        x = torch.ones(64, device="cuda")
        with torch.cuda.stream(torch.cuda.Stream()):
            y = torch.ones(64, device="cuda")
        del y, x

    events = traced(program)
    allocated = [stream for _, stream in streams(events, Kind.ALLOCATE)]
    assert sorted(allocated) == sorted(stream for _, stream in streams(events, Kind.FREE))
    assert allocated[0] == 0
    assert allocated[1] != 0


def test_snapshots_and_statistics_agree() -> None:
    with virtual_gpu(model="T4"):
        tensors = [torch.empty(size, dtype=torch.uint8, device="cuda") for size in (5, 3 * MIB, 11 * MIB - 1, 11 * MIB)]
        del tensors[1]
        segments, stats = torch.cuda.memory_snapshot(), torch.cuda.memory_stats()
        for name, key in (("allocated_bytes", "allocated_size"), ("active_bytes", "active_size")):
            assert stats[f"{name}.all.current"] == sum(segment[key] for segment in segments)
        splits = [segment["blocks"] for segment in segments if len(segment["blocks"]) > 1]
        free = [block["size"] for blocks in splits for block in blocks if block["state"] == "inactive"]
        assert free
        assert stats["inactive_split_bytes.all.current"] == sum(free)

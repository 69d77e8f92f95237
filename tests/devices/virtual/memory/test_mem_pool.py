"""`torch.cuda.MemPool` and `torch.cuda.use_mem_pool`."""

from __future__ import annotations

import gc
import threading
from typing import Any

import pytest
import torch

from gpututor.devices.virtual import VirtualMachine

MIB = 1 << 20


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


def test_a_pool_counts_its_users_and_is_freed_with_the_last(two_gpus: VirtualMachine) -> None:
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


def test_the_end_of_a_pool_frees_its_idle_segments(two_gpus: VirtualMachine) -> None:
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
        thread = threading.Thread(target=lambda: kept.append(_large()))
        thread.start()
        thread.join()
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

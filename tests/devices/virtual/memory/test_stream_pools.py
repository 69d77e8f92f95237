"""Memory by stream, and after `record_stream`, by `test_record_stream` and others of PyTorch's test_cuda.py."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from gpututor.devices.virtual import VirtualMachine

pytestmark = pytest.mark.usefixtures("two_gpus")

CUDA: Any = torch.cuda
SIZE = 1 << 20
CYCLES = 80_000_000
"""50 ms of a T4."""


def zeros() -> torch.Tensor:
    return torch.zeros(SIZE, device="cuda")


def current(name: str) -> int:
    return int(torch.cuda.memory_stats()[f"{name}.all.current"])


def test_freed_memory_returns_to_its_own_stream_and_segments_too() -> None:
    side = torch.cuda.Stream()
    x = zeros()
    address = x.data_ptr()
    del x
    with torch.cuda.stream(side):
        elsewhere = zeros()
    here = zeros()
    assert elsewhere.data_ptr() != address
    assert here.data_ptr() == address
    del here, elsewhere
    torch.cuda.empty_cache()
    x = torch.zeros(4, device="cuda")
    with torch.cuda.stream(side):
        y = torch.zeros(4, device="cuda")
    segments = torch.cuda.memory_snapshot()
    assert [segment["stream"] for segment in segments] == [0, side.cuda_stream]
    assert [segment["blocks"][0]["address"] for segment in segments] == [x.data_ptr(), y.data_ptr()]
    assert torch.cuda.memory_reserved() == 2 * (2 << 20)


def use_on_current(side: Any) -> int:
    """Allocate on a side stream, use it for long on the current one after `record_stream`, return its address."""
    with torch.cuda.stream(side):
        x = zeros()
    torch.cuda.current_stream().wait_stream(side)
    x.record_stream(torch.cuda.current_stream())
    CUDA._sleep(CYCLES)
    x.sum()
    return x.data_ptr()


def test_recorded_memory_is_used_again_once_the_stream_is_done() -> None:
    side = torch.cuda.Stream()
    address = use_on_current(side)
    with torch.cuda.stream(side):
        soon = zeros()
    torch.cuda.current_stream().synchronize()
    with torch.cuda.stream(side):
        later = zeros()
    assert soon.data_ptr() != address
    assert later.data_ptr() == address


def test_memory_in_use_elsewhere_is_active_but_not_allocated() -> None:
    side = torch.cuda.Stream()
    use_on_current(side)
    assert (current("allocated_bytes"), current("active_bytes")) == (0, 4 * SIZE)
    states = [block["state"] for segment in torch.cuda.memory_snapshot() for block in segment["blocks"]]
    assert "active_pending_free" in states
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        x = zeros()
    assert (current("allocated_bytes"), current("active_bytes")) == (x.nbytes, x.nbytes)


def test_without_room_the_allocator_waits_for_the_other_stream(two_gpus: VirtualMachine) -> None:
    torch.cuda.set_per_process_memory_fraction(30 * SIZE / torch.cuda.get_device_properties(0).total_memory)
    side = torch.cuda.Stream()
    use_on_current(side)
    before = two_gpus.clock.host.now
    with torch.cuda.stream(side):
        x = torch.zeros(5 * SIZE, device="cuda")
    assert two_gpus.clock.host.now - before > 40_000_000
    assert torch.cuda.memory_allocated() == x.untyped_storage().nbytes()


def test_emptying_the_cache_frees_memory_of_all_streams() -> None:
    side = torch.cuda.Stream()
    use_on_current(side)
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == 0
    assert current("active_bytes") == 0


def test_splits_of_two_streams_are_counted_together() -> None:
    side = torch.cuda.Stream()
    kept = [torch.zeros(4, device="cuda")]
    with torch.cuda.stream(side):
        kept.append(torch.zeros(4, device="cuda"))
    assert current("inactive_split") == 2
    assert current("inactive_split_bytes") == 2 * (2 << 20) - 2 * 512
    kept.clear()
    assert (current("inactive_split"), current("inactive_split_bytes")) == (0, 0)


def test_addresses_are_those_of_the_gpus_memory() -> None:
    x = torch.zeros(8, device="cuda")
    (segment,) = torch.cuda.memory_snapshot()
    assert x.data_ptr() == segment["blocks"][0]["address"]
    assert x[2:].data_ptr() == x.data_ptr() + 8
    assert x.untyped_storage().data_ptr() == x.data_ptr()
    assert torch.zeros(0, device="cuda").data_ptr() == 0


def test_recorded_memory_of_a_pool_waits_for_the_other_stream() -> None:
    pool, side = torch.cuda.MemPool(), torch.cuda.Stream()
    with torch.cuda.use_mem_pool(pool):
        address = use_on_current(side)
        with torch.cuda.stream(side):
            soon = zeros()
        torch.cuda.current_stream().synchronize()
        with torch.cuda.stream(side):
            later = zeros()
    assert soon.data_ptr() != address
    assert later.data_ptr() == address


def test_memory_of_a_replayed_graph_is_free_at_once() -> None:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = zeros()
    CUDA._sleep(CYCLES)
    graph.replay()
    assert kept.data_ptr() != 0
    del kept, graph
    assert current("active_bytes") == 0

"""Out of memory in private pools and captures, and the retries that the allocator counts, as on CUDA."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import virtual_gpu
from gpututor.devices.virtual.machine import active_machine
from gpututor.trace.columns import MOST_BYTES
from gpututor.trace.events import Kind

MIB = 1 << 20


@pytest.fixture(autouse=True)
def small_gpu() -> Iterator[None]:
    with virtual_gpu(memory_bytes=64 * MIB):
        yield


def taken(mebibytes: int) -> torch.Tensor:
    return torch.empty(mebibytes * MIB, dtype=torch.uint8, device="cuda")


def retries() -> int:
    return int(torch.cuda.memory_stats()["num_alloc_retries"])


def test_a_pools_free_block_is_used_again() -> None:
    with torch.cuda.use_mem_pool(torch.cuda.MemPool()):
        first = taken(40)
        address = first.data_ptr()
        del first
        assert taken(40).data_ptr() == address
    assert retries() == 0


def test_a_captures_free_block_is_used_again() -> None:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        first = taken(40)
        address = first.data_ptr()
        del first
        second = taken(40)
    assert second.data_ptr() == address
    assert retries() == 0


def test_memory_of_deleted_graphs_is_given_back() -> None:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = taken(40)
    with pytest.raises(torch.OutOfMemoryError):
        taken(50)
    del kept, graph
    assert taken(50).nbytes == torch.cuda.memory_reserved() == 50 * MIB


def test_a_pool_takes_memory_from_the_cache() -> None:
    taken(40)
    with torch.cuda.use_mem_pool(torch.cuda.MemPool()):
        assert taken(50).nbytes == torch.cuda.memory_reserved() == 50 * MIB
    assert retries() == 1


def test_each_failed_retry_is_counted_too() -> None:
    kept = taken(40)
    for count in (1, 2):
        with pytest.raises(torch.OutOfMemoryError):
            taken(40)
        stats = torch.cuda.memory_stats()
        assert (stats["num_alloc_retries"], stats["num_ooms"], stats["num_sync_all_streams"]) == (count, count, count)
    del kept
    assert taken(60).nbytes == torch.cuda.memory_reserved()
    assert retries() == 3


def test_each_emptying_of_the_cache_synchronizes_all_streams_once() -> None:
    taken(40)
    for count in (1, 2):
        torch.cuda.empty_cache()
        assert torch.cuda.memory_stats()["num_sync_all_streams"] == count
    torch.cuda.reset_accumulated_memory_stats()
    assert torch.cuda.memory_stats()["num_sync_all_streams"] == 0


def test_results_that_only_fit_one_by_one_count_one_retry() -> None:
    kept, values = taken(20), torch.zeros(3 * MIB, device="cuda")
    with pytest.raises(torch.OutOfMemoryError):
        torch.sort(values)
    assert (retries(), kept.nbytes) == (1, 20 * MIB)


def test_a_capture_frees_no_cached_memory() -> None:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(torch.cuda.Stream()):
        taken(40)
        graph.capture_begin()
        kept = torch.ones(1, device="cuda")
        with pytest.raises(torch.OutOfMemoryError):
            taken(50)
        graph.capture_end()
        assert retries() == 0
        assert taken(50).nbytes + kept.nbytes == 50 * MIB + 4
    assert retries() == 1


def test_an_empty_tensor_fits_on_a_full_gpu() -> None:
    full = taken(64)
    assert torch.zeros(0).to("cuda").numel() == 0
    assert full.resize_(0).numel() == 0
    assert retries() == 0


def test_a_size_too_large_for_a_trace_is_cut() -> None:
    recorder = Recorder([__file__])
    active_machine().record_with(recorder)
    with pytest.raises(torch.OutOfMemoryError, match="more than 1EB"):
        torch.empty(2**63 - 1, dtype=torch.uint8, device="cuda")
    with pytest.raises(torch.OutOfMemoryError, match="more than 1EB"):
        torch.UntypedStorage(-1, device="cuda")
    sizes = [event.size_bytes for event in recorder.trace if event.kind is Kind.OUT_OF_MEMORY]
    assert sizes == [MOST_BYTES] * 2

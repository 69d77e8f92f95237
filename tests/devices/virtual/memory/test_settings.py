"""Settings of the caching allocator: `PYTORCH_ALLOC_CONF` and `torch.cuda.memory._set_allocator_settings`."""

from __future__ import annotations

import pytest
import torch

from gpututor.devices.virtual import virtual_gpu
from gpututor.devices.virtual.memory.settings import MIB, parse_settings

SIZE = 84 * MIB
"""Bytes whose roundings PyTorch's own test of the settings uses."""


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("", 84 * MIB),
        ("roundup_power2_divisions:1", 84 * MIB),
        ("roundup_power2_divisions:2", 96 * MIB),
        ("roundup_power2_divisions:4", 96 * MIB),
        ("roundup_power2_divisions:8", 88 * MIB),
        ("roundup_power2_divisions:[64:8,128:2,256:2,512:2,1024:1,>:1]", 88 * MIB),
        ("roundup_power2_divisions:[32:8,64:2,>:1]", 96 * MIB),
        ("garbage_collection_threshold:0.5,max_split_size_mb:40", 84 * MIB),
    ],
)
def test_sizes_are_rounded_up_to_the_divisions(text: str, taken: int) -> None:
    assert parse_settings(text).rounded(SIZE) == taken


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("foo:1,bar:2", "foo"),
        ("expandable_segments:True,bar:2", "bar"),
        ("garbage_collection_threshold:1.2", "garbage_collection_threshold"),
        ("garbage_collection_threshold:low", "garbage_collection_threshold"),
        ("max_split_size_mb:2", "max_split_size_mb"),
        ("max_split_size_mb:", "max_split_size_mb"),
        ("release_lock_on_cudamalloc:none", "release_lock_on_cudamalloc"),
        ("pinned_num_register_threads:3", "pinned_num_register_threads"),
        ("pinned_num_register_threads:1024", "pinned_num_register_threads"),
        ("roundup_power2_divisions:3", "divisions"),
        ("roundup_power2_divisions:[3:1]", "intervals"),
        ("backend:other", "backend"),
        ("per_process_memory_fraction:1.5", "per_process_memory_fraction"),
        ("per_process_memory_fraction:half", "per_process_memory_fraction"),
    ],
)
def test_an_unknown_key_or_value_is_named(text: str, key: str) -> None:
    with virtual_gpu(), pytest.raises(ValueError, match=key):
        torch._C._accelerator_setAllocatorSettings(text)


def test_settings_hold_until_others_replace_them() -> None:
    with virtual_gpu():
        torch._C._accelerator_setAllocatorSettings("roundup_power2_divisions:8,max_split_size_mb:40")
        kept = torch.empty(SIZE, dtype=torch.uint8, device="cuda")
        assert torch.cuda.memory_allocated() == 88 * MIB
        settings = torch.cuda.memory._snapshot()["allocator_settings"]
        assert (settings["max_split_size"], settings["roundup_power2_divisions"]["64"]) == (40 * MIB, 8)
        torch._C._accelerator_setAllocatorSettings("")
        assert torch._C._accelerator_getAllocatorSettings() == ""
        other = torch.empty(SIZE, dtype=torch.uint8, device="cuda")
        assert torch.cuda.memory_allocated() == (88 + 84) * MIB
        del kept, other
        assert torch.cuda.memory_allocated() == 0


def test_the_environment_is_read_at_the_first_use_of_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    with virtual_gpu():
        monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
        torch.ones(1, device="cuda")
        monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "foo:1")
        assert torch.cuda.memory._snapshot()["allocator_settings"]["expandable_segments"] is True
    with virtual_gpu():
        assert torch.cuda.is_available()
        with pytest.raises(ValueError, match="'foo'"):
            torch.ones(1, device="cuda")


def test_large_blocks_are_not_split_beyond_the_limit() -> None:
    with virtual_gpu():
        torch._C._accelerator_setAllocatorSettings("max_split_size_mb:40")
        torch.empty(100 * MIB, dtype=torch.uint8, device="cuda")
        small = torch.empty(30 * MIB, dtype=torch.uint8, device="cuda")
        # The cached block of 100 MiB is left for large requests, and gets no rest.
        assert torch.cuda.memory_reserved() == 130 * MIB
        large = torch.empty(90 * MIB, dtype=torch.uint8, device="cuda")
        assert torch.cuda.memory_reserved() == 130 * MIB
        del small, large


def test_an_expandable_segment_grows_by_pages() -> None:
    with virtual_gpu():
        torch._C._accelerator_setAllocatorSettings("expandable_segments:True")
        first = torch.empty(25 * MIB, dtype=torch.uint8, device="cuda")
        assert torch.cuda.memory_reserved() == 40 * MIB
        second = torch.empty(30 * MIB, dtype=torch.uint8, device="cuda")
        assert torch.cuda.memory_reserved() == 60 * MIB
        small = torch.empty(MIB, dtype=torch.uint8, device="cuda")
        assert torch.cuda.memory_reserved() == 62 * MIB
        segments = torch.cuda.memory_snapshot()
        assert [(segment["is_expandable"], segment["total_size"]) for segment in segments] == [
            (True, 60 * MIB),
            (True, 2 * MIB),
        ]
        del first, second, small


def test_an_expandable_segment_gives_back_whole_pages_which_the_history_names() -> None:
    with virtual_gpu():
        torch._C._accelerator_setAllocatorSettings("expandable_segments:True")
        torch.cuda.memory._record_memory_history()
        first, middle, last = (torch.empty(size * MIB, dtype=torch.uint8, device="cuda") for size in (10, 60, 10))
        del middle
        torch.cuda.empty_cache()
        # The pages from 20 to 60 MiB have no tensor; those before and after have one.
        assert (torch.cuda.memory_allocated(), torch.cuda.memory_reserved()) == (20 * MIB, 40 * MIB)
        assert len(torch.cuda.memory_snapshot()) == 2
        middle = torch.empty(60 * MIB, dtype=torch.uint8, device="cuda")
        assert (len(torch.cuda.memory_snapshot()), torch.cuda.memory_reserved()) == (1, 80 * MIB)
        del first, middle, last
        torch.cuda.empty_cache()
        assert torch.cuda.memory_reserved() == 0
        (trace,) = torch.cuda.memory._snapshot()["device_traces"]
    pages = [(entry["action"], entry["size"] // MIB) for entry in trace if entry["action"].startswith("segment")]
    there, back = "segment_map", "segment_unmap"
    assert pages == [(there, 20), (there, 60), (back, 40), (there, 40), (back, 80)]


@pytest.mark.parametrize(("text", "fits"), [("", False), ("expandable_segments:True", True)])
def test_expandable_segments_do_not_fragment_memory(text: str, fits: bool) -> None:
    with virtual_gpu(memory_bytes=100 * MIB):
        torch._C._accelerator_setAllocatorSettings(text)
        torch.empty(40 * MIB, dtype=torch.uint8, device="cuda")
        # It takes a tenth of the cached memory, and the rest can only be given back by pages.
        kept = torch.empty(4 * MIB, dtype=torch.uint8, device="cuda")
        large = None
        try:
            large = torch.empty(70 * MIB, dtype=torch.uint8, device="cuda")
        except torch.OutOfMemoryError:
            assert torch.cuda.memory_reserved() == 40 * MIB
        assert (large is not None) is fits
        del kept


def test_pages_are_given_back_after_expandable_segments_were_turned_off() -> None:
    with virtual_gpu(memory_bytes=120 * MIB):
        tensors = []
        for value in (False, True, False):
            torch._C._accelerator_setAllocatorSettings(f"expandable_segments:{value}")
            tensors.append(torch.empty(40 * MIB, dtype=torch.uint8, device="cuda"))
        tensors.clear()
        torch.empty(120 * MIB, dtype=torch.uint8, device="cuda")
        assert torch.cuda.memory_reserved() == 120 * MIB


def test_a_new_segment_is_split_even_if_it_is_large() -> None:
    with virtual_gpu():
        torch._C._accelerator_setAllocatorSettings("max_split_size_mb:20")
        first, second = (torch.empty(5 * MIB, dtype=torch.uint8, device="cuda") for _ in range(2))
        assert second.data_ptr() == first.data_ptr() + 5 * MIB
        assert torch.cuda.memory_reserved() == 20 * MIB


def test_oversize_memory_is_counted_from_the_limit_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:40")

    def figures() -> tuple[int, ...]:
        stats = torch.cuda.memory_stats()
        names = ("oversize_allocations.current", "oversize_allocations.peak", "oversize_segments.current")
        return tuple(int(stats[name]) for name in names)

    with virtual_gpu():
        kept = [torch.empty(size * MIB, dtype=torch.uint8, device="cuda") for size in (30, 40, 50)]
        assert torch.cuda.memory_stats()["max_split_size"] == 40 * MIB
        assert figures() == (2, 2, 2)
        del kept[1:]
        assert figures() == (0, 2, 2)
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        assert figures() == (0, 0, 0)
        torch._C._accelerator_setAllocatorSettings("")
        assert torch.cuda.memory_stats()["max_split_size"] == 40 * MIB, "CUDA sets it at its start"
    monkeypatch.delenv("PYTORCH_CUDA_ALLOC_CONF")
    with virtual_gpu():
        torch.cuda.init()
        assert torch.cuda.memory_stats()["max_split_size"] == -1


def test_the_environment_limits_the_share_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "per_process_memory_fraction:0.5")
    with virtual_gpu(memory_bytes=100 * MIB):
        assert torch.cuda.get_per_process_memory_fraction() == 0.5
        with pytest.raises(torch.OutOfMemoryError, match=r"50\.00 MiB allowed; "):
            torch.empty(60 * MIB, dtype=torch.uint8, device="cuda")
        torch.cuda.set_per_process_memory_fraction(1.0)
        assert torch.empty(60 * MIB, dtype=torch.uint8, device="cuda").nbytes == 60 * MIB


def test_cudas_own_allocator_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "backend:cudaMallocAsync")
    with virtual_gpu(), pytest.raises(NotImplementedError, match="backend:cudaMallocAsync"):
        torch.ones(1, device="cuda")
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "backend:native")
    with virtual_gpu():
        assert torch.ones(1, device="cuda").item() == 1
        assert torch.cuda.get_allocator_backend() == "native"

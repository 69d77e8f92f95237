"""Device memory of tensors: rounding, caching and release."""

from __future__ import annotations

import gc
import resource
import sys
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpututor.devices.virtual import VirtualMachine, storage_key, virtual_gpu


def test_blocks_are_counted_in_steps_of_512_bytes_and_freed_with_the_last_view(two_gpus: VirtualMachine) -> None:
    assert torch.cuda.memory_allocated() == 0
    x = torch.zeros(129, device="cuda")
    assert torch.cuda.memory_allocated() == 1024
    assert torch.cuda.memory_allocated(1) == 0
    view = x[3:5]
    again = x.reshape(43, 3)
    assert torch.cuda.memory_allocated() == 1024
    del x, again
    assert torch.cuda.memory_allocated() == 1024
    del view
    assert torch.cuda.memory_allocated() == 0
    assert torch.cuda.max_memory_allocated() == 1024
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_allocated() == 0


def test_reserved_memory_is_kept_until_the_cache_is_emptied(two_gpus: VirtualMachine) -> None:
    x = torch.zeros(10_000_000, device="cuda")
    del x
    assert torch.cuda.memory_reserved() >= 40_000_000
    assert torch.cuda.mem_get_info()[0] < torch.cuda.mem_get_info()[1] == int(14.56 * 2**30)
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == 0
    assert torch.cuda.mem_get_info() == (int(14.56 * 2**30),) * 2


def test_too_large_a_tensor_is_out_of_memory() -> None:
    with virtual_gpu(memory_bytes=64 * 2**20):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(torch.OutOfMemoryError) as caught:
            torch.zeros(2**30, device="cuda")
        assert str(caught.value).startswith(
            "CUDA out of memory. Tried to allocate 4.00 GiB. "
            "GPU 0 has a total capacity of 64.00 MiB of which 64.00 MiB is free."
        )
        host = torch.empty(2**30, dtype=torch.uint8)
        calls: list[Callable[[], torch.Tensor]] = [
            lambda: torch.randn(2**15, 2**15, device="cuda"),
            lambda: host.cuda(),
            lambda: host[:1].expand(2**30).to("cuda", torch.float64),
            lambda: torch.ones(2**12, 1, device="cuda") @ torch.ones(1, 2**17, device="cuda"),
        ]
        for call in calls:
            with pytest.raises(torch.cuda.OutOfMemoryError, match="CUDA out of memory"):
                call()
        assert torch.cuda.memory_allocated() == 0
        unit = 1 if sys.platform == "darwin" else 1024
        assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit < 100 * 2**20


def test_a_training_step_leaves_nothing_behind_without_the_garbage_collector(two_gpus: VirtualMachine) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(50, 50), torch.nn.ReLU(), torch.nn.Linear(50, 1)).cuda()
    kept = torch.cuda.memory_allocated()
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            model(torch.randn(4, 50, device="cuda")).sum().backward()
            model.zero_grad()
        assert torch.cuda.memory_allocated() == kept
    finally:
        gc.enable()


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["zeros", "view", "add", "add_", "drop", "clone", "move"]), st.integers(0, 5)),
        max_size=25,
    )
)
def test_allocated_is_the_sum_of_the_live_storages(steps: list[tuple[str, int]]) -> None:
    with virtual_gpu(1):
        live: list[torch.Tensor] = []
        for step, choice in steps:
            if step == "zeros" or not live:
                live.append(torch.zeros(choice * 100, device="cuda"))
                continue
            x = live[choice % len(live)]
            if step == "drop":
                live.pop(choice % len(live))
            elif step == "add_":
                x.add_(1)
            else:
                made: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
                    "view": lambda x: x[1:],
                    "add": lambda x: x + 1,
                    "clone": torch.clone,
                    "move": lambda x: x.cpu().cuda(),
                }
                live.append(made[step](x))
            del x
            sizes = {storage_key(tensor): -(-tensor.untyped_storage().nbytes() // 512) * 512 for tensor in live}
            assert torch.cuda.memory_allocated() == sum(sizes.values())


def test_a_search_for_elements_takes_memory_while_it_runs(two_gpus: VirtualMachine) -> None:
    x = torch.arange(10, device="cuda")
    peaks = []
    searches: list[Callable[[], object]] = [x.nonzero, lambda: x[x > 4], lambda: torch.masked_select(x, x > 4)]
    for search in searches:
        torch.cuda.reset_peak_memory_stats()
        search()
        peaks.append(torch.cuda.max_memory_allocated())
    assert peaks == [2560, 3072, 3072]
    many = torch.ones(1_000_000, device="cuda")
    torch.cuda.reset_peak_memory_stats()
    many[many > 0]
    assert torch.cuda.max_memory_allocated() > (4 + 1 + 8 + 4) * 1_000_000

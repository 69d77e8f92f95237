"""Device memory of tensors: rounding, caching and release."""

from __future__ import annotations

import gc
from collections.abc import Callable

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpututor.devices.virtual import VirtualMachine, storage_key, virtual_gpu


def test_reserved_memory_is_kept_until_the_cache_is_emptied(two_gpus: VirtualMachine) -> None:
    x = torch.zeros(10_000_000, device="cuda")
    del x
    assert torch.cuda.memory_reserved() >= 40_000_000
    assert torch.cuda.mem_get_info()[0] < torch.cuda.mem_get_info()[1] == int(14.56 * 2**30)
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == 0
    assert torch.cuda.mem_get_info() == (int(14.56 * 2**30),) * 2


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

"""The cache of page-locked memory, by `test_caching_pinned_memory`; its cost, and factories with `pin_memory`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

from gpututor.devices.virtual import VirtualMachine

pytestmark = pytest.mark.usefixtures("two_gpus")

CUDA: Any = torch.cuda
CYCLES = 80_000_000
"""50 ms of a T4."""


def pinned(size: int = 1) -> torch.Tensor:
    return torch.ones(size).pin_memory()


def stat(name: str) -> int:
    return int(CUDA.host_memory_stats()[name])


def test_a_freed_block_serves_other_sizes_up_to_its_power_of_two() -> None:
    x = pinned()
    address = x.data_ptr()
    del x
    assert pinned().data_ptr() == address
    kept = pinned(), pinned()
    assert kept[0].data_ptr() != kept[1].data_ptr()
    x = pinned(200)
    address, nbytes = x.data_ptr(), x.untyped_storage().nbytes()
    del x
    y = torch.arange(250.0).pin_memory()
    assert (nbytes, y.untyped_storage().nbytes(), y.data_ptr()) == (800, 1000, address)
    assert torch.equal(y, torch.arange(250.0))
    assert pinned(300).data_ptr() != address


def test_a_block_that_a_copy_uses_is_not_used_again_too_soon() -> None:
    there, x = torch.zeros(1, device="cuda"), pinned()
    address = x.data_ptr()
    CUDA._sleep(CYCLES)
    there.copy_(x, non_blocking=True)
    del x
    y = pinned()
    assert y.data_ptr() != address
    torch.cuda.synchronize()
    assert pinned().data_ptr() == address
    assert there.item() == 1


def test_all_ways_to_pin_use_the_cache() -> None:
    device = torch.ones(4, device="cuda")
    makers: list[Any] = [
        lambda: torch.empty(4, pin_memory=True),
        lambda: torch.full((4,), 2.0, pin_memory=True),
        lambda: torch.tensor([1.0, 2.0, 3.0, 4.0], pin_memory=True),
        lambda: torch.ones(4, requires_grad=True).pin_memory(),
        lambda: device.to("cpu", non_blocking=True),
        lambda: torch.ones(2, 2).t().pin_memory(),
    ]
    addresses = set()
    for make in makers:
        addresses.add(make().data_ptr())
        torch.cuda.synchronize()
    assert len(addresses) == 1
    view = torch.arange(4.0).view(2, 2).t().pin_memory()
    assert (view.is_pinned(), view.stride(), view.tolist()) == (True, (1, 2), [[0.0, 2.0], [1.0, 3.0]])


def test_statistics_have_pytorchs_keys() -> None:
    torch.cuda.init()
    pinned()
    documented = re.findall(r'``"([\w./{},]+)"``', CUDA.host_memory_stats.__doc__)
    expected = set()
    for entry in documented:
        name, _, metrics = entry.partition(".{")
        expected |= {f"{name}.{metric}" for metric in metrics[:-1].split(",")} if metrics else {name}
    expected |= {"num_host_free"}
    assert set(CUDA.host_memory_stats()) == expected
    assert set(CUDA.host_memory_stats_as_nested_dict()) == {name.partition(".")[0] for name in expected}


def test_statistics_count_blocks_and_requests() -> None:
    torch.cuda.init()
    x, y = pinned(200), pinned(200)
    del y
    assert (stat("allocations.current"), stat("allocated_bytes.current")) == (2, 2048)
    assert (stat("active_requests.current"), stat("active_bytes.current"), stat("active_bytes.peak")) == (1, 1024, 2048)
    assert (stat("num_host_alloc"), stat("num_host_free"), stat("host_alloc_time.count")) == (2, 0, 2)
    CUDA.reset_peak_host_memory_stats()
    CUDA.reset_accumulated_host_memory_stats()
    assert (stat("active_bytes.peak"), stat("active_bytes.allocated"), stat("num_host_alloc")) == (1024, 0, 0)
    torch._C._host_emptyCache()
    assert (stat("allocations.current"), stat("allocations.freed"), stat("num_host_free")) == (1, 1, 1)
    assert x.is_pinned()


def test_statistics_are_empty_before_cuda_starts() -> None:
    assert CUDA.host_memory_stats() == {}


def test_pinned_tensors_can_be_saved_and_shared(tmp_path: Any) -> None:
    x = torch.arange(5.0).pin_memory()
    torch.save(x, tmp_path / "x.pt")
    assert torch.equal(torch.load(tmp_path / "x.pt"), x)
    assert torch.equal(x.share_memory_(), torch.arange(5.0))
    assert x.numpy().sum() == 10
    assert x.is_pinned()
    assert x[1:].is_pinned()


def test_pinning_before_a_copy_is_no_faster_than_pageable(two_gpus: VirtualMachine) -> None:
    host, values = two_gpus.clock.host, torch.zeros(4 << 20)
    values.to("cuda")

    def spent(pinned: bool) -> int:
        before = host.now
        (values.pin_memory() if pinned else values).to("cuda", non_blocking=pinned)
        torch.cuda.synchronize()
        return host.now - before

    plain, fresh, again = spent(False), spent(True), spent(True)
    assert fresh > again + 8_000_000
    assert plain < again < 2 * plain


MAKING: list[Callable[[torch.Tensor], torch.Tensor]] = [
    lambda x: torch.empty_like(x, device="cpu", pin_memory=True),
    lambda x: torch.zeros_like(x, device="cpu", pin_memory=True),
    lambda x: torch.ones_like(x, device=torch.device("cpu"), pin_memory=True),
    lambda x: torch.full_like(x, 3.0, device="cpu", pin_memory=True),
    lambda x: torch.rand_like(x, device="cpu", pin_memory=True),
    lambda x: x.new_empty((2, 3), device="cpu", pin_memory=True),
    lambda x: x.new_zeros((2, 3), device="cpu", pin_memory=True),
    lambda x: torch.empty_strided(x.size(), x.stride(), device="cpu", pin_memory=True),
    lambda x: torch.empty_like(x.cpu(), pin_memory=True),
    lambda x: x.cpu().new_full((2, 3), 1.0, pin_memory=True),
]


@pytest.mark.parametrize("make", MAKING)
def test_factories_make_pinned_buffers_like_gpu_tensors(make: Callable[[torch.Tensor], torch.Tensor]) -> None:
    x = torch.ones(2, 3, device="cuda")
    made = make(x)
    assert (made.device.type, made.shape, made.is_pinned()) == ("cpu", (2, 3), True)
    made.copy_(x, non_blocking=True)
    torch.cuda.synchronize()
    assert made.sum() == 6


@pytest.mark.parametrize(
    "make",
    [
        lambda x: torch.empty_like(x, pin_memory=True),
        lambda x: torch.empty_like(x, device="cuda", pin_memory=True),
        lambda x: x.new_empty(2, pin_memory=True),
    ],
)
def test_gpu_memory_cannot_be_pinned(make: Callable[[torch.Tensor], Any]) -> None:
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        make(torch.ones(2, device="cuda"))

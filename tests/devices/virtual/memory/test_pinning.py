"""Cost of page-locked memory, and factories with `pin_memory`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from gpututor.devices.virtual import VirtualMachine, virtual_gpu


def test_pinning_before_a_copy_is_no_faster_than_pageable() -> None:
    with virtual_gpu(1, "A100") as machine:
        host, values = machine.clock.host, torch.zeros(4 << 20)
        values.to("cuda")

        def spent(pinned: bool) -> int:
            before = host.now
            (values.pin_memory() if pinned else values).to("cuda", non_blocking=pinned)
            torch.cuda.synchronize()
            return host.now - before

        plain, fresh, again = spent(False), spent(True), spent(True)
        assert fresh > again + 8_000_000
        assert plain < again < 2 * plain


def test_freed_pinned_blocks_are_reused() -> None:
    with virtual_gpu(1, "A100") as machine:
        host = machine.clock.host

        def spent(kept: list[torch.Tensor]) -> int:
            before = host.now
            kept.append(torch.empty(1 << 20, pin_memory=True))
            return host.now - before

        first: list[torch.Tensor] = []
        assert spent(first) > 2_000_000
        assert spent([]) > 2_000_000
        assert spent([]) < 100_000
        assert len(first) == 1


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
def test_factories_make_pinned_buffers_like_gpu_tensors(
    two_gpus: VirtualMachine, make: Callable[[torch.Tensor], torch.Tensor]
) -> None:
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
def test_gpu_memory_cannot_be_pinned(two_gpus: VirtualMachine, make: Callable[[torch.Tensor], Any]) -> None:
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        make(torch.ones(2, device="cuda"))

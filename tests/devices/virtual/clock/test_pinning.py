"""Page-locked memory is not free."""

from __future__ import annotations

import torch

from gpututor.devices.virtual.session import virtual_gpu


def test_to_pin_first_is_no_faster_than_a_pageable_copy_and_the_first_time_much_slower() -> None:
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


def test_freed_blocks_are_locked_once_and_live_ones_each() -> None:
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

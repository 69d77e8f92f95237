"""Autocast that several threads enter at once, as the replicas of DataParallel do."""

from __future__ import annotations

import threading

import torch

from gpututor.devices.virtual import VirtualMachine


def test_threads_that_enter_autocast_at_once_all_compute_in_half(two_gpus: VirtualMachine) -> None:
    x = torch.ones(2, 2, device="cuda")
    together = threading.Barrier(8)
    found: list[torch.dtype] = []

    def work() -> None:
        together.wait(60)
        with torch.autocast("cuda"):
            found.append((x @ x).dtype)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [torch.float16] * 8

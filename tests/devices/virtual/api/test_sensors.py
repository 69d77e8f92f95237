"""Sensors of a virtual GPU follow the work of the last second."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch

from gpututor.devices.virtual import virtual_gpu

CUDA: Any = torch.cuda


def _work(seconds: float) -> None:
    """Keep the GPU busy with products for about that long, in modelled time."""
    x = torch.empty(4096, 4096, device="cuda")
    CUDA.synchronize()
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        x @ x
        CUDA.synchronize()


def test_an_idle_gpu_is_cool() -> None:
    with virtual_gpu(1, "A100"):
        torch.ones(1, device="cuda")
        time.sleep(2)
        assert (CUDA.utilization(), CUDA.memory_usage()) == (0, 0)
        assert CUDA.power_draw() == 50_000
        assert CUDA.temperature() == 34
        assert CUDA.clock_rate() == 1410


def test_a_busy_gpu_draws_its_boards_power() -> None:
    with virtual_gpu(2, "A100", values=False):
        _work(1.2)
        assert CUDA.utilization() >= 98
        assert 0 < CUDA.memory_usage() < 20
        assert CUDA.power_draw() > 390_000
        assert CUDA.temperature() > 80
        assert CUDA.utilization(1) == 0
        time.sleep(0.5)
        assert 47 <= CUDA.utilization() <= 53
        time.sleep(0.6)
        assert CUDA.utilization() == 0


def test_memory_bound_and_small_kernels_keep_other_parts_busy() -> None:
    with virtual_gpu(1, "A100", values=False):
        x = torch.empty(1 << 28, device="cuda")
        for _ in range(300):
            x.add_(1)
        CUDA.synchronize()
        assert CUDA.utilization() > 90
        assert CUDA.memory_usage() > 70
    with virtual_gpu(1, "A100"):
        x = torch.ones(8, device="cuda")
        for _ in range(2000):
            x.add_(1)
        CUDA.synchronize()
        assert 10 < CUDA.utilization() < 90


def test_used_memory_is_what_the_process_reserved() -> None:
    with virtual_gpu(2):
        before = CUDA.device_memory_used(1)
        x = torch.empty(1 << 20, device="cuda:1")
        assert (before, CUDA.device_memory_used(1)) == (0, 20 << 20)
        del x
    with virtual_gpu(1), pytest.raises((RuntimeError, AssertionError)):
        CUDA.utilization(3)

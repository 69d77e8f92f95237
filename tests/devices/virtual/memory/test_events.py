"""Time that the host spends in `cudaMalloc` and `cudaFree`."""

from __future__ import annotations

from collections.abc import Callable

import torch

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual.memory.events import allocation_ns, free_ns
from gpututor.devices.virtual.session import virtual_gpu
from gpututor.hardware.gpus import gpu_spec
from gpututor.trace.events import Kind

MIB = 2**20


def test_a_new_segment_costs_the_host_time_and_cached_memory_as_much_as_a_view() -> None:
    with virtual_gpu(1, "A100", values=False) as machine:
        host, view = machine.clock.host, machine.gpus[0].view_ns

        def spent(action: Callable[[], object]) -> int:
            before = host.now
            action()
            return host.now - before

        assert spent(lambda: torch.empty(1024 * MIB, dtype=torch.uint8, device="cuda")) == view + allocation_ns(
            1024 * MIB
        )
        assert spent(lambda: torch.empty(1024 * MIB, dtype=torch.uint8, device="cuda")) == view
        kept = torch.empty(4, device="cuda")
        assert spent(lambda: torch.empty_like(kept)) == view
        assert spent(lambda: kept.new_empty(3)) == view
    assert 30_000 <= allocation_ns(2 * MIB) < allocation_ns(1024 * MIB) < 1_000_000


def test_emptying_the_cache_waits_for_the_gpu_and_costs_time_for_each_segment() -> None:
    recorder = Recorder()
    with virtual_gpu(1, "T4", recorder=recorder, values=False) as machine:
        kept = torch.zeros(4096, 4096, device="cuda")
        for _ in range(4):
            kept @ kept
        before = machine.clock.host.now
        torch.cuda.empty_cache()
        after = machine.clock.host.now
        torch.cuda.empty_cache()
        assert machine.clock.host.now == after
        (wait,) = [event for event in recorder.complete() if event.kind is Kind.SYNCHRONISE]
        last = max(event.end for event in recorder.complete() if event.kind is Kind.KERNEL)
        assert (wait.name, wait.start, wait.end) == ("cudaFree", before, last)
        assert after == wait.end + free_ns(1, 64 * MIB)


def test_freeing_the_cache_when_memory_is_short_synchronizes() -> None:
    recorder = Recorder()
    with virtual_gpu(1, "T4", recorder=recorder, values=False, memory_bytes=1024 * MIB):
        torch.zeros(600 * MIB, dtype=torch.uint8, device="cuda")
        torch.zeros(700 * MIB, dtype=torch.uint8, device="cuda")
    assert [event.name for event in recorder.complete() if event.kind is Kind.SYNCHRONISE] == ["cudaFree"]


def test_total_memory_is_what_real_boards_report() -> None:
    """Totals are from error messages of real boards; in-band ECC takes a sixteenth."""
    reported = {"T4": 14.56, "A10G": 22.07, "L4": 22.03, "L40S": 44.39, "A100 40": 39.39, "H100": 79.1, "B200": 178.35}
    for name, gib in reported.items():
        assert gpu_spec(name).memory_bytes == int(gib * 2**30)

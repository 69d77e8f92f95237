"""`timeit`, `torch.utils.benchmark` and `sched` on the virtual clock."""

from __future__ import annotations

import sched
import time
import timeit
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils import benchmark

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import VirtualMachine, virtual_gpu
from gpututor.trace.events import Kind
from tests.support.virtual_gpus import printed

REAL = time.perf_counter
MS = 1_000_000


@pytest.fixture
def machine() -> Iterator[VirtualMachine]:
    with virtual_gpu() as machine:
        yield machine


def nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)


def test_timeit_uses_the_virtual_clock_however_it_is_imported(machine: VirtualMachine) -> None:
    spend = machine.clock.host.spend
    names = {"spend": spend}
    wanted = 10 * MS + 50
    assert nanoseconds(timeit.timeit("spend(1_000_000)", globals=names, number=10)) == wanted
    assert nanoseconds(timeit.timeit(lambda: spend(MS), number=10)) == wanted
    assert nanoseconds(timeit.Timer("spend(1_000_000)", globals=names).timeit(10)) == wanted
    assert nanoseconds(timeit.timeit(lambda: spend(MS), timer=timeit.default_timer, number=10)) == wanted
    assert nanoseconds(timeit.timeit(lambda: spend(MS), timer=REAL, number=10)) == wanted, "imported earlier"
    assert [nanoseconds(seconds) for seconds in timeit.repeat(lambda: spend(MS), number=10, repeat=3)] == [wanted] * 3
    assert timeit.timeit(lambda: spend(MS), timer=time.perf_counter_ns, number=10) == wanted
    assert timeit.timeit(lambda: spend(MS), timer=time.time_ns, number=10) == wanted


def test_autorange_ends_for_plain_python(machine: VirtualMachine) -> None:
    assert nanoseconds(timeit.timeit("1 + 1", number=1000)) == 100_050
    assert timeit.timeit("1 + 1", timer=time.time_ns, number=1000) == 100_050
    number, taken = timeit.Timer("1 + 1").autorange()
    assert (number, nanoseconds(taken)) == (2_000_000, 200_000_050)
    assert benchmark.Timer("1 + 1").blocked_autorange().median == pytest.approx(100e-9, rel=1e-3)


@pytest.mark.long
def test_timeit_as_a_program_ends(tmp_path: Path) -> None:
    command = ["-m", "gpututor.devices.virtual", "-m", "timeit", "-v", "1 + 1"]
    assert "100 nsec per loop" in printed(*command, cwd=tmp_path)


def test_sched_uses_the_virtual_clock(machine: VirtualMachine) -> None:
    seen = []
    schedule = sched.scheduler(time.monotonic, time.sleep)
    for delay in (7200, 3600):
        schedule.enter(delay, 1, lambda delay=delay: seen.append((delay, time.monotonic_ns() // 10**9)))
    schedule.run()
    assert seen == [(3600, 3600), (7200, 7200)]


SIDE = 256


def modelled_s(recorder: Recorder, call: Any) -> tuple[float, float]:
    """Return the modelled seconds of the launch and of the kernel of a call."""
    began = len(recorder.complete())
    call()
    (event,) = [entry for entry in list(recorder.complete())[began:] if entry.kind is Kind.KERNEL]
    return 9.5e-6, (event.end - event.start) / 1e9


def test_the_timer_measures_the_longer_of_kernel_and_launch(recorder: Recorder) -> None:
    x, small = torch.ones(SIDE, SIDE, device="cuda"), torch.ones(4, device="cuda")
    launch, kernel = modelled_s(recorder, lambda: x @ x)
    assert kernel > launch
    long = benchmark.Timer("x @ x", globals={"x": x}).timeit(200)
    assert long.mean == pytest.approx(kernel, rel=0.02)
    launch, kernel = modelled_s(recorder, lambda: small + small)
    assert kernel < launch
    short = benchmark.Timer("x + x", globals={"x": small}).timeit(200)
    assert short.mean == pytest.approx(launch, rel=0.02)


def test_the_timer_synchronizes(recorder: Recorder) -> None:
    x = torch.ones(SIDE, SIDE, device="cuda")
    launch, kernel = modelled_s(recorder, lambda: x @ x)
    # One round: its launch, its kernel, and a wait that costs 3 us at the least.
    once = benchmark.Timer("x @ x", globals={"x": x}).timeit(1)
    assert once.mean == pytest.approx(launch + kernel, abs=4e-6)


def test_all_timer_methods_agree() -> None:
    def measured() -> list[float]:
        with virtual_gpu():
            x = torch.ones(64, 64, device="cuda")
            timer = benchmark.Timer("x.sin()", globals={"x": x})
            return [
                timer.timeit(100).mean,
                timer.blocked_autorange(min_run_time=0.005).median,
                timer.adaptive_autorange(min_run_time=0.002, max_run_time=0.01).median,
            ]

    first = measured()
    assert first == measured()
    assert first == pytest.approx([9.5e-6] * 3, rel=0.05)


def test_measurements_can_be_compared_in_a_table(two_gpus: VirtualMachine) -> None:
    results = [
        benchmark.Timer(
            "x + x", globals={"x": torch.ones(size, device="cuda")}, sub_label=str(size), description="add"
        ).timeit(20)
        for size in (4, 1 << 20)
    ]
    table = str(benchmark.Compare(results))
    assert "add" in table
    assert "1048576" in table
    assert results[1].mean > 2 * results[0].mean


def test_work_of_the_cpu_is_measured_on_the_modelled_cpu(two_gpus: VirtualMachine) -> None:
    x = torch.ones(SIDE, SIDE)
    first, second = (benchmark.Timer("x @ x", globals={"x": x}).timeit(10).mean for _ in range(2))
    assert first == second > 0

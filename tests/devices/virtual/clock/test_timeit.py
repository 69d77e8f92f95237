"""`timeit`, `torch.utils.benchmark` and `sched` on the virtual clock."""

from __future__ import annotations

import sched
import time
import timeit
from collections.abc import Iterator
from pathlib import Path

import pytest
from torch.utils import benchmark

from gpututor.devices.virtual import VirtualMachine, virtual_gpu
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

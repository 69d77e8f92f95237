"""The `time` and `timeit` modules on a virtual GPU: learner code reads the virtual clock, libraries the real one."""

from __future__ import annotations

import logging
import math
import pickle
import sched
import subprocess
import sys
import time
import timeit
from collections.abc import Callable, Iterator
from copy import deepcopy
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils import benchmark
from torch.utils.benchmark.utils import timer

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import VirtualMachine, virtual_gpu
from gpututor.devices.virtual.clock.machine_clock import READING
from gpututor.devices.virtual.session import replaceable_virtual_gpu
from gpututor.trace.events import Kind
from tests.support.parameters import mostly_long
from tests.support.virtual_gpus import printed

S = 1_000_000_000
CLOCKS = ("perf_counter", "monotonic", "time", "process_time", "thread_time")
READINGS = [name for base in CLOCKS for name in (base, base + "_ns")]


def test_reading_a_clock_takes_fifty_nanoseconds(machine: VirtualMachine) -> None:
    for name in READINGS:
        if name.endswith("_ns"):
            before, after = getattr(time, name)(), getattr(time, name)()
            assert after - before == READING
    assert machine.clock.host.now == 2 * len(CLOCKS) * READING


def test_the_clock_begins_at_zero_and_shows_seconds_and_nanoseconds(machine: VirtualMachine) -> None:
    assert time.perf_counter() == 50e-9
    assert time.monotonic() == 100e-9
    assert time.perf_counter_ns() == 150
    assert time.monotonic_ns() == 200


def test_work_moves_the_clock_and_sleep_does_not_wait(machine: VirtualMachine) -> None:
    before = time.perf_counter_ns()
    machine.clock.host.spend(1234)
    assert time.perf_counter_ns() - before == 1234 + READING
    before = time.time_ns()
    time.sleep(3600)
    assert time.time_ns() - before == 3600 * S + READING


def test_sleep_takes_no_process_time(machine: VirtualMachine) -> None:
    before = time.process_time_ns(), time.thread_time_ns()
    time.sleep(2)
    machine.clock.host.spend(1000)
    assert time.process_time_ns() - before[0] == 1000 + 2 * READING
    assert time.thread_time_ns() - before[1] == 1000 + 2 * READING


def test_dates_are_of_today_and_differences_do_not_depend_on_the_moment() -> None:
    differences = set()
    for start in (1_700_000_000, 1_799_999_999):
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(_real_functions(), "time", lambda start=start: start + 0.734)
            with virtual_gpu(0):
                before = time.time()
                time.sleep(0.012345678)
                differences.add(time.time() - before)
                assert int(before) == start
                assert time.time_ns() // S == start
    assert len(differences) == 1
    assert differences.pop() == pytest.approx(0.012345678, abs=2**-22)


def _real_functions() -> dict[str, Any]:
    from gpututor.devices.virtual.clock import python_time

    return python_time._REAL


@pytest.mark.parametrize("seconds", mostly_long([1, 60, 3600], [1, 60]))
def test_a_polling_loop_ends_on_time(machine: VirtualMachine, seconds: int) -> None:
    start = time.perf_counter_ns()
    while time.perf_counter_ns() < start + seconds * S:
        pass
    over = machine.clock.host.now - start - seconds * S
    assert 0 <= over <= min(seconds * S // 1000, 1_000_000)


def test_a_loop_with_two_measurements_is_no_polling_loop(machine: VirtualMachine) -> None:
    total = 0
    for _ in range(10_000):
        before = time.perf_counter_ns()
        total += time.perf_counter_ns() - before
    assert total == 10_000 * READING


def test_polling_is_detected_by_the_calling_line(machine: VirtualMachine) -> None:
    def now() -> int:
        return time.perf_counter_ns()

    total = 0
    for _ in range(10_000):
        before = now()
        total += now() - before
    assert total == 10_000 * READING


@pytest.mark.parametrize(
    "wrong", [-1, -0.5, math.nan, math.inf, 1e300, 10**30, "x", None, Decimal("0.1"), 1j, [1]], ids=repr
)
def test_sleep_raises_the_real_errors(wrong: Any) -> None:
    def said() -> tuple[type, str]:
        with pytest.raises((ValueError, TypeError, OverflowError)) as error:
            time.sleep(wrong)
        return error.type, str(error.value)

    really = said()
    with virtual_gpu(0) as machine:
        assert said() == really
        assert machine.clock.host.now == 0


def test_wrong_arguments_raise_the_real_errors() -> None:
    def said(*arguments: Any, **named: Any) -> list[str]:
        words = []
        for function in (time.sleep, time.perf_counter, time.time_ns):
            with pytest.raises(TypeError) as error:
                function(*arguments, **named)
            words.append(str(error.value))
        return words

    really = said(1, 2), said(seconds=1)
    with virtual_gpu(0):
        assert (said(1, 2), said(seconds=1)) == really


def test_sleep_accepts_integers_and_index_objects(machine: VirtualMachine) -> None:
    class Two:
        def __index__(self) -> int:
            return 2

    time.sleep(True)
    time.sleep(Two())
    time.sleep(0)
    time.sleep(0.25)
    assert machine.clock.host.now == 3 * S + S // 4


def test_real_time_leaves_the_time_module_unchanged() -> None:
    before = dict(vars(time)), dict(vars(timeit.Timer))
    with virtual_gpu(0, virtual_time=False) as machine:
        assert (dict(vars(time)), dict(vars(timeit.Timer))) == before
        time.perf_counter()
        assert machine.clock.host.now == 0


def test_a_nested_machine_uses_its_own_clock() -> None:
    real = time.sleep
    with replaceable_virtual_gpu(0) as session:
        assert time.sleep is real
        with virtual_gpu(0) as machine:
            time.sleep(5)
            assert (machine.clock.host.now, session.clock.host.now) == (5 * S, 0)
            with replaceable_virtual_gpu(0) as test:
                time.sleep(0)
                assert time.sleep is not real
                assert test.clock.host.now == 0
            time.sleep(5)
            assert machine.clock.host.now == 10 * S
        assert time.sleep is real
    assert time.sleep is real


def test_libraries_keep_the_real_clock(machine: VirtualMachine) -> None:
    record = logging.LogRecord("", 0, "", 0, "", None, None)
    assert record.created != int(record.created)
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run([sys.executable, "-c", "import time; time.sleep(60)"], timeout=0.2, check=False)
    assert machine.clock.host.now == 0


def test_a_clock_function_can_be_a_class_attribute(machine: VirtualMachine) -> None:
    class Stopwatch:
        clock: Callable[..., int] = time.perf_counter_ns

    assert Stopwatch().clock() == READING
    assert Stopwatch.clock() == 2 * READING


def test_clock_functions_can_be_pickled_copied_and_printed(machine: VirtualMachine) -> None:
    assert pickle.loads(pickle.dumps(time.sleep)) is time.sleep
    assert deepcopy(time.perf_counter) is time.perf_counter
    assert repr(time.monotonic) == "<built-in function monotonic>"
    assert time.time.__name__ == "time"


def test_standard_library_functions_called_by_the_learner_count(machine: VirtualMachine) -> None:
    assert list(map(time.sleep, [1, 1])) == [None, None]
    assert machine.clock.host.now == 2 * S


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


waiting_timer = pytest.mark.skipif(
    timer.timer is timeit.default_timer, reason="this PyTorch decides at the import whether its timer waits for a GPU"
)


def modelled_s(recorder: Recorder, call: Any) -> tuple[float, float]:
    """Return the modelled seconds of the launch and of the kernel of a call."""
    began = len(recorder.complete())
    call()
    (event,) = [entry for entry in list(recorder.complete())[began:] if entry.kind is Kind.KERNEL]
    return 9.5e-6, (event.end - event.start) / 1e9


@waiting_timer
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


@waiting_timer
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


@waiting_timer
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

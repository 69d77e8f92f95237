"""The `time` module on a virtual GPU: learner code reads the virtual clock, libraries the real one."""

from __future__ import annotations

import logging
import math
import pickle
import subprocess
import sys
import threading
import time
import timeit
from collections.abc import Callable
from copy import deepcopy
from decimal import Decimal
from typing import Any

import pytest

from gpututor.devices.virtual import VirtualMachine, virtual_gpu
from gpututor.devices.virtual.clock.machine_clock import READING
from gpututor.devices.virtual.session import virtual_gpu_or_another
from tests.support.parameters import mostly_long

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


def test_time_is_restored_even_after_an_exception() -> None:
    import asyncio
    import queue

    watched = [time, timeit, timeit.Timer, threading.Thread, threading.Event, threading.Condition, queue, queue.Queue]
    watched += [asyncio.SelectorEventLoop.__mro__[1], threading.Semaphore, threading.Barrier]
    before = [dict(vars(event)) for event in watched]
    with virtual_gpu(0):
        assert dict(vars(time)) != before[0]
    assert [dict(vars(event)) for event in watched] == before
    with pytest.raises(ZeroDivisionError), virtual_gpu(0):
        raise ZeroDivisionError
    assert [dict(vars(event)) for event in watched] == before


def test_real_time_leaves_the_time_module_unchanged() -> None:
    before = dict(vars(time)), dict(vars(timeit.Timer))
    with virtual_gpu(0, virtual_time=False) as machine:
        assert (dict(vars(time)), dict(vars(timeit.Timer))) == before
        time.perf_counter()
        assert machine.clock.host.now == 0


def test_a_nested_machine_uses_its_own_clock() -> None:
    real = time.sleep
    with virtual_gpu_or_another(0) as session:
        assert time.sleep is real
        with virtual_gpu(0) as machine:
            time.sleep(5)
            assert (machine.clock.host.now, session.clock.host.now) == (5 * S, 0)
            with virtual_gpu_or_another(0) as test:
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

"""Thread pools: a job runs on the worker that is free first on the virtual clock."""

from __future__ import annotations

import threading
import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, as_completed, wait

import pytest

from gpututor.devices.virtual import VirtualMachine, virtual_gpu
from tests.support.threads import S, now, slept


def test_a_pool_runs_as_many_jobs_as_workers(machine: VirtualMachine) -> None:
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(time.sleep, [1] * 8)) == [None] * 8
        assert machine.clock.host.now == 4 * S
        time.sleep(10)
        future = pool.submit(time.sleep, 2)
        assert machine.clock.host.now == 14 * S
        future.result()
        assert machine.clock.host.now == 16 * S


def test_jobs_take_the_worker_that_is_free_first(machine: VirtualMachine) -> None:
    with ThreadPoolExecutor(2) as pool:
        ended = [pool.submit(slept, seconds, now) for seconds in (5, 1, 1, 1, 4)]
        assert [future.result() // S for future in ended] == [5, 1, 2, 3, 7]
    assert machine.clock.host.now == 7 * S


def test_leaving_a_pool_waits_for_its_jobs(machine: VirtualMachine) -> None:
    with ThreadPoolExecutor(2) as pool:
        for seconds in (1, 5, 2):
            pool.submit(time.sleep, seconds)
        assert machine.clock.host.now == 0
    assert machine.clock.host.now == 5 * S


def test_a_jobs_error_arrives_when_the_job_ends(machine: VirtualMachine) -> None:
    def fail() -> None:
        time.sleep(3)
        raise ZeroDivisionError

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(fail)
        with pytest.raises(ZeroDivisionError):
            future.result()
        assert machine.clock.host.now == 3 * S
        assert isinstance(pool.submit(fail).exception(), ZeroDivisionError)
        assert machine.clock.host.now == 6 * S


def test_waiting_for_many_futures(machine: VirtualMachine) -> None:
    with ThreadPoolExecutor(3) as pool:
        futures = [pool.submit(time.sleep, seconds) for seconds in (1, 2, 3)]
        done, _ = wait(futures, return_when=FIRST_COMPLETED)
        assert done
        assert sorted(bool(future.result()) for future in as_completed(futures)) == [False] * 3
        assert machine.clock.host.now == 3 * S


def test_a_job_may_submit_to_its_own_pool(machine: VirtualMachine) -> None:
    with ThreadPoolExecutor(2) as pool:

        def outer() -> int:
            time.sleep(1)
            return int(pool.submit(slept, 1, lambda: 7).result())

        assert pool.submit(outer).result() == 7
        assert machine.clock.host.now == 2 * S


def test_cancelled_jobs_take_no_time(machine: VirtualMachine) -> None:
    hold = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(hold.wait)
        cancelled = [pool.submit(time.sleep, 100) for _ in range(3)]
        assert all(future.cancel() for future in cancelled)
        last = pool.submit(time.sleep, 2)
        hold.set()
        last.result()
    assert machine.clock.host.now == 2 * S


def test_a_pool_that_is_older_than_the_machine_works_on_it() -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()
        with virtual_gpu(0) as machine:
            time.sleep(3)
            pool.submit(time.sleep, 2).result()
            assert machine.clock.host.now == 5 * S

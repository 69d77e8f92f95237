"""Threads that wait, and jobs of thread pools, continue when the value or a worker is ready on the virtual clock."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, as_completed, wait
from multiprocessing.pool import ThreadPool
from typing import Any

import pytest

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import VirtualMachine, virtual_gpu
from gpututor.devices.virtual.threads import UNFOLLOWED
from gpututor.trace.events import Kind
from tests.support.threads import S, now, slept, started


def test_wait_returns_at_the_time_an_event_was_set(machine: VirtualMachine) -> None:
    event, seen = threading.Event(), []

    def wait_for_it(seconds: float) -> None:
        time.sleep(seconds)
        assert event.wait(60)
        seen.append(machine.clock.host.now)

    threads = [started(wait_for_it, seconds) for seconds in (1, 9)]
    time.sleep(4)
    event.set()
    time.sleep(1)
    event.set()
    for thread in threads:
        thread.join()
    assert sorted(seen) == [4 * S, 9 * S], "not earlier than it was set, and set once"


def test_a_wait_that_times_out_takes_its_timeout(machine: VirtualMachine) -> None:
    items: queue.Queue[int] = queue.Queue(1)
    simple: queue.SimpleQueue[int] = queue.SimpleQueue()
    hold = threading.Event()
    thread = started(hold.wait)
    unset = threading.Event()
    never: Future[int] = Future()

    items.put(1)
    ways: list[Callable[[], Any]] = [lambda: unset.wait(0.01), lambda: thread.join(0.01)]
    for number, in_vain in enumerate(ways, 1):
        assert not in_vain()
        assert machine.clock.host.now == number * S // 100
    refusals: list[tuple[Callable[[], Any], type[Exception]]] = [
        (lambda: items.put(2, timeout=0.01), queue.Full),
        (lambda: simple.get(timeout=0.01), queue.Empty),
        (lambda: never.result(0.01), TimeoutError),
    ]
    for refused, error in refusals:
        before = machine.clock.host.now
        with pytest.raises(error):
            refused()
        assert machine.clock.host.now - before == S // 100
    before = machine.clock.host.now
    at_once_ways: list[Callable[[], Any]] = [lambda: items.put(2, block=False), simple.get_nowait]
    for at_once in at_once_ways:
        with pytest.raises((queue.Full, queue.Empty)):
            at_once()
    assert machine.clock.host.now == before
    hold.set()
    thread.join()


def test_a_python_timer_calls_at_its_virtual_time(machine: VirtualMachine) -> None:
    seen: list[int] = []
    timer = threading.Timer(0.01, lambda: seen.append(machine.clock.host.now))
    timer.start()
    timer.join()
    assert seen == [S // 100]
    assert machine.clock.host.now == S // 100


@pytest.mark.parametrize("kind", ["Queue", "LifoQueue", "PriorityQueue", "SimpleQueue"])
def test_get_returns_no_earlier_than_the_put(machine: VirtualMachine, kind: str) -> None:
    items: Any = getattr(queue, kind)()
    handed_over = threading.Event()

    def produce() -> None:
        for number in range(3):
            time.sleep(1)
            items.put(number)
        handed_over.wait(60)

    thread = started(produce)
    for _ in range(3):
        number = items.get()
        assert machine.clock.host.now >= (number + 1) * S
    handed_over.set()
    thread.join()
    assert machine.clock.host.now == 3 * S


def test_a_full_queue_blocks_the_producer(machine: VirtualMachine) -> None:
    items: queue.Queue[int | None] = queue.Queue(maxsize=2)
    produced = []

    def produce() -> None:
        for number in range(5):
            time.sleep(1)
            items.put(number)
            produced.append(machine.clock.host.now // S)
        items.put(None)

    thread = started(produce)
    while items.get() is not None:
        time.sleep(3)
        items.task_done()
    assert produced == [1, 2, 3, 4, 7]
    assert machine.clock.host.now == 16 * S
    thread.join()


def test_queue_join_returns_at_the_end_of_the_last_task(machine: VirtualMachine) -> None:
    items: queue.Queue[int] = queue.Queue()

    def work(seconds: int) -> None:
        items.get()
        time.sleep(seconds)
        items.task_done()

    for seconds in (1, 5, 2):
        items.put(seconds)
        started(work, seconds)
    items.join()
    assert machine.clock.host.now == 5 * S


def test_the_same_object_can_be_in_a_queue_many_times(machine: VirtualMachine) -> None:
    items: queue.Queue[None] = queue.Queue()
    for _ in range(3):
        time.sleep(1)
        items.put(None)
    seen: list[int] = []

    def consume() -> None:
        for _ in range(3):
            items.get()
            seen.append(machine.clock.host.now)

    machine.clock.host.now = 0
    started(consume).join()
    assert seen == [S, 2 * S, 3 * S]


def _acquire(machine: VirtualMachine) -> None:
    permits = threading.Semaphore(0)
    thread = started(slept, 2, permits.release)
    assert permits.acquire(timeout=60)
    with threading.BoundedSemaphore(2):
        thread.join()


def _meet_at_a_barrier(machine: VirtualMachine) -> None:
    barrier = threading.Barrier(2)
    thread = started(slept, 2, barrier.wait)
    barrier.wait(60)
    thread.join()


def _wait_for_a_notification(machine: VirtualMachine) -> None:
    condition, ready = threading.Condition(), []

    def notify() -> None:
        time.sleep(2)
        with condition:
            ready.append(1)
            condition.notify_all()

    with condition:
        thread = started(notify)
        assert condition.wait_for(lambda: ready, 60)
    thread.join()


def _map_in_an_older_kind_of_pool(machine: VirtualMachine) -> None:
    with ThreadPool(2) as pool:
        assert pool.map(abs, [-1, 2]) == [1, 2]
    time.sleep(2)


def _run_an_event_loop(machine: VirtualMachine) -> None:
    async def program() -> str:
        await asyncio.sleep(0.001)
        return await asyncio.wait_for(asyncio.to_thread(slept, 2, str, "done"), 60)

    assert asyncio.run(program()) == "done"


@pytest.mark.parametrize(
    "wait", [_acquire, _meet_at_a_barrier, _wait_for_a_notification, _map_in_an_older_kind_of_pool, _run_an_event_loop]
)
def test_other_waits_work_in_real_time_and_the_trace_names_the_first(
    machine: VirtualMachine, wait: Callable[[VirtualMachine], None]
) -> None:
    machine.record_with(recorder := Recorder())
    for _ in range(2):
        wait(machine)
    assert machine.clock.host.now in (2 * S, 4 * S)
    named = [event for event in recorder.complete() if event.kind is Kind.RANGE]
    assert [event.name for event in named] == [UNFOLLOWED]


def test_waits_that_the_clock_follows_are_not_named_in_the_trace(machine: VirtualMachine) -> None:
    machine.record_with(recorder := Recorder())
    items: queue.Queue[int] = queue.Queue()
    started(slept, 1, items.put, 1)
    assert items.get() == 1
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(abs, [-1, 2])) == [1, 2]
    assert len(recorder.complete()) == 0


def test_a_pool_runs_as_many_jobs_as_workers(machine: VirtualMachine) -> None:
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(time.sleep, [1] * 8)) == [None] * 8
        assert machine.clock.host.now == 4 * S
        time.sleep(10)
        future = pool.submit(time.sleep, 2)
        assert machine.clock.host.now == 14 * S
        future.result()
        assert machine.clock.host.now == 16 * S


def test_jobs_take_the_worker_that_is_free_first_and_leaving_waits(machine: VirtualMachine) -> None:
    with ThreadPoolExecutor(2) as pool:
        ended = [pool.submit(slept, seconds, now) for seconds in (5, 1, 1, 1, 4)]
        assert machine.clock.host.now == 0
    assert machine.clock.host.now == 7 * S
    assert [future.result() // S for future in ended] == [5, 1, 2, 3, 7]


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

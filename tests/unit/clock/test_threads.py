"""Each thread has a clock, which begins at its parent's time; who waits goes on when what it waited for was ready."""

from __future__ import annotations

import _thread
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, as_completed, wait
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import pytest
import torch

from gpututor.devices.virtual import VirtualMachine, virtual_gpu
from gpututor.devices.virtual.machine import active

S = 1_000_000_000


@pytest.fixture
def machine() -> Iterator[VirtualMachine]:
    with virtual_gpu(0) as machine:
        yield machine


def started(function: Callable[..., Any], *arguments: Any) -> threading.Thread:
    thread = threading.Thread(target=function, args=arguments, daemon=True)
    thread.start()
    return thread


def slept(seconds: float, then: Callable[..., Any] | None = None, *arguments: Any) -> Any:
    """What `then` gives after a sleep."""
    time.sleep(seconds)
    return None if then is None else then(*arguments)


def now() -> int:
    return active().clock.host.now


def test_a_thread_begins_at_its_parents_time_and_is_joined_at_its_end(machine: VirtualMachine) -> None:
    seen = []

    def work() -> None:
        seen.append(machine.clock.host.now)
        time.sleep(3)

    time.sleep(2)
    thread = started(work)
    time.sleep(1)
    assert machine.clock.host.now == 3 * S
    thread.join()
    assert seen == [2 * S]
    assert machine.clock.host.now == 5 * S
    time.sleep(10)
    thread.join()
    assert machine.clock.host.now == 15 * S


def test_threads_run_beside_each_other(machine: VirtualMachine) -> None:
    for thread in [started(time.sleep, seconds) for seconds in (3, 1, 2)]:
        thread.join()
    assert machine.clock.host.now == 3 * S


def test_a_thread_that_low_level_code_starts_has_a_clock_too(machine: VirtualMachine) -> None:
    items: queue.Queue[int] = queue.Queue()
    time.sleep(2)
    _thread.start_new_thread(lambda: slept(3, lambda: items.put(now())), ())
    assert items.get() == machine.clock.host.now == 5 * S


def test_an_event_is_seen_when_it_was_set(machine: VirtualMachine) -> None:
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


def test_waiting_in_vain_takes_its_time(machine: VirtualMachine) -> None:
    items: queue.Queue[int] = queue.Queue(1)
    simple: queue.SimpleQueue[int] = queue.SimpleQueue()
    condition = threading.Condition()
    hold = threading.Event()
    thread = started(hold.wait)
    taken = threading.Semaphore(0)
    unset = threading.Event()
    never: Future[int] = Future()

    def on_condition(function: Callable[[], Any]) -> Callable[[], Any]:
        def wait_there() -> Any:
            with condition:
                return function()

        return wait_there

    items.put(1)
    ways: list[Callable[[], Any]] = [
        lambda: unset.wait(0.01),
        lambda: taken.acquire(timeout=0.01),
        on_condition(lambda: condition.wait(0.01)),
        on_condition(lambda: condition.wait_for(lambda: False, 0.01)),
        lambda: thread.join(0.01),
    ]
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


def test_a_timer_of_python_waits_for_real_and_calls_at_its_time(machine: VirtualMachine) -> None:
    seen: list[int] = []
    timer = threading.Timer(0.01, lambda: seen.append(machine.clock.host.now))
    timer.start()
    timer.join()
    assert seen == [S // 100]
    assert machine.clock.host.now == S // 100


@pytest.mark.parametrize("kind", ["Queue", "LifoQueue", "PriorityQueue", "SimpleQueue"])
def test_who_gets_an_item_goes_on_no_earlier_than_it_was_put(machine: VirtualMachine, kind: str) -> None:
    items: Any = getattr(queue, kind)()
    handed_over = threading.Barrier(2)

    def produce() -> None:
        for number in range(3):
            time.sleep(1)
            items.put(number)
        handed_over.wait()

    thread = started(produce)
    for _ in range(3):
        number = items.get()
        assert machine.clock.host.now >= (number + 1) * S
    handed_over.wait()
    thread.join()
    assert machine.clock.host.now == 3 * S


def test_producer_and_consumer_overlap_and_a_full_queue_holds_the_producer(machine: VirtualMachine) -> None:
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


def test_who_waits_for_all_tasks_goes_on_at_the_end_of_the_last(machine: VirtualMachine) -> None:
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


def test_a_barrier_opens_at_the_time_of_the_last(machine: VirtualMachine) -> None:
    barrier, seen = threading.Barrier(3), []

    def work(seconds: int) -> None:
        for _ in range(2):
            time.sleep(seconds)
            barrier.wait()
            seen.append(machine.clock.host.now)

    for thread in [started(work, seconds) for seconds in (5, 1, 3)]:
        thread.join()
    assert sorted(seen) == [5 * S] * 3 + [10 * S] * 3


def test_a_broken_barrier_says_so_and_can_be_used_again(machine: VirtualMachine) -> None:
    barrier = threading.Barrier(2)
    with pytest.raises(threading.BrokenBarrierError):
        barrier.wait(0.01)
    barrier.reset()
    thread = started(slept, 2, barrier.wait)
    barrier.wait()
    assert machine.clock.host.now == 2 * S
    thread.join()


def test_a_permit_is_had_when_it_was_given_back(machine: VirtualMachine) -> None:
    ready = threading.Semaphore(0)
    thread = started(lambda: (slept(2, ready.release), slept(2, ready.release)))
    ready.acquire()
    assert machine.clock.host.now == 2 * S
    with ready:
        assert machine.clock.host.now == 4 * S
    thread.join()


def test_a_semaphore_lets_so_many_in_at_a_time(machine: VirtualMachine) -> None:
    two = threading.BoundedSemaphore(2)

    def work() -> None:
        with two:
            time.sleep(1)

    for thread in [started(work) for _ in range(6)]:
        thread.join()
    assert machine.clock.host.now == 3 * S
    with pytest.raises(ValueError, match="released too many times"):
        two.release()
    with two, two:
        assert not two.acquire(blocking=False)


def test_who_is_notified_goes_on_when_that_was(machine: VirtualMachine) -> None:
    condition, ready = threading.Condition(), []

    def notify() -> None:
        time.sleep(3)
        with condition:
            ready.append(1)
            condition.notify_all()

    thread = started(notify)
    with condition:
        while not ready:
            condition.wait()
    assert machine.clock.host.now == 3 * S
    with condition:
        assert condition.wait_for(lambda: ready, 1)
    thread.join()


def test_a_pool_has_as_many_places_as_workers(machine: VirtualMachine) -> None:
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


def test_an_error_of_a_job_arrives_at_its_time(machine: VirtualMachine) -> None:
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
        assert sorted(bool(one.result()) for one in as_completed(futures)) == [False] * 3
        assert machine.clock.host.now == 3 * S


def test_a_job_that_gives_jobs_to_its_own_pool_ends(machine: VirtualMachine) -> None:
    with ThreadPoolExecutor(2) as pool:

        def outer() -> int:
            time.sleep(1)
            return int(pool.submit(slept, 1, lambda: 7).result())

        assert pool.submit(outer).result() == 7
        assert machine.clock.host.now == 2 * S


def test_cancelled_jobs_hold_nobody(machine: VirtualMachine) -> None:
    hold = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(hold.wait)
        cancelled = [pool.submit(time.sleep, 100) for _ in range(3)]
        assert all(one.cancel() for one in cancelled)
        last = pool.submit(time.sleep, 2)
        hold.set()
        last.result()
    assert machine.clock.host.now == 2 * S


def test_the_older_pool_of_threads(machine: VirtualMachine) -> None:
    host = machine.clock.host
    with ThreadPool(2) as pool:
        pool.map(time.sleep, [1] * 8)
        assert host.now == 4 * S
        assert list(pool.imap(time.sleep, [1] * 4)) == [None] * 4
        assert host.now == 6 * S
        assert list(pool.imap_unordered(time.sleep, [1] * 4, chunksize=2)) == [None] * 4
        assert host.now == 8 * S
        result = pool.apply_async(time.sleep, (5,))
        assert host.now == 8 * S
        result.get()
        assert host.now == 13 * S
        pool.starmap(time.sleep, [(1,), (1,)])
        assert host.now == 14 * S


def test_a_pool_that_is_older_than_the_machine_works_on_it() -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()
        with virtual_gpu(0) as machine:
            time.sleep(3)
            pool.submit(time.sleep, 2).result()
            assert machine.clock.host.now == 5 * S


def test_an_older_thread_reads_the_real_clock() -> None:
    asked, answers = queue.Queue[None](), queue.Queue[float]()

    def answer() -> None:
        asked.get()
        answers.put(time.perf_counter())

    thread = started(answer)
    before = time.perf_counter()
    with virtual_gpu(0) as machine:
        asked.put(None)
        assert answers.get() >= before
        assert machine.clock.host.now == 0
    thread.join()


def test_threads_that_launch_have_clocks_of_their_own_where_time_is_real() -> None:
    with virtual_gpu(virtual_time=False) as machine:
        thread = started(lambda: machine.clock.host.spend(7))
        thread.join()
        assert machine.clock.host.now == 7


def test_a_module_of_data_parallel_takes_the_same_time_on_each_run() -> None:
    def taken() -> int:
        with virtual_gpu(2) as machine:
            model = torch.nn.DataParallel(torch.nn.Linear(8, 8).cuda())
            for _ in range(3):
                model(torch.ones(16, 8, device="cuda")).sum().backward()
            torch.cuda.synchronize()
            return machine.clock.host.now

    assert taken() == taken() > 0


_PROGRAM = """
import asyncio, queue, threading, time
from concurrent.futures import ThreadPoolExecutor
import torch
from gpututor.devices.virtual import virtual_gpu
start = time.perf_counter()
with virtual_gpu():
    x = torch.ones(64, 64, device="cuda")
    begun, today = time.perf_counter(), time.time()
    for _ in range(10):
        x = (x @ x).sin()
    print(time.perf_counter() - begun, time.time() - today)
    torch.cuda.synchronize()
    print(time.perf_counter() - begun, time.time() - today)
    with ThreadPoolExecutor(3) as pool:
        jobs = [pool.submit(lambda i=i: (time.sleep(i / 7), time.monotonic())[1]) for i in range(9)]
        print([job.result() for job in jobs])
    async def main():
        await asyncio.gather(*(asyncio.sleep(i / 7) for i in range(9)))
        await asyncio.to_thread(time.sleep, 1 / 3)
    asyncio.run(main())
    items = queue.Queue(2)
    thread = threading.Thread(target=lambda: [(time.sleep(1 / 7), items.put(i)) for i in range(20)])
    thread.start()
    print([(items.get(), time.sleep(1 / 9), time.perf_counter())[2] for _ in range(20)])
    thread.join()
    while time.perf_counter() < 60:
        pass
    print(time.perf_counter(), time.process_time(), time.time() - today)
"""


def test_figures_are_the_same_in_each_process(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(_PROGRAM)
    printed = {
        subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
        for _ in range(3)
    }
    assert len(printed) == 1
    assert printed.pop().count("\n") == 5

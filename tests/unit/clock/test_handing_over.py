"""Who waits for another thread goes on no earlier than what it waited for was ready."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from gpututor.devices.virtual import VirtualMachine
from tests.unit.clock.waiting import S, slept, started


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
    # Who comes in while the other slot is free depends on the order in which the computer runs the threads: at worst
    # all go through the same one.
    assert 3 * S <= machine.clock.host.now <= 6 * S
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

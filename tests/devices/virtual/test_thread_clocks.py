"""Clocks of threads: a thread starts at its parent's time, and `join` continues at its end."""

from __future__ import annotations

import _thread
import queue
import time
from pathlib import Path

import pytest
import torch

from gpututor.devices.virtual import VirtualMachine, virtual_gpu
from tests.support.threads import S, now, slept, started
from tests.support.virtual_gpus import printed


def test_a_thread_starts_at_its_parents_time(machine: VirtualMachine) -> None:
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


def test_threads_run_concurrently(machine: VirtualMachine) -> None:
    for thread in [started(time.sleep, seconds) for seconds in (3, 1, 2)]:
        thread.join()
    assert machine.clock.host.now == 3 * S


def test_a_low_level_thread_has_a_clock(machine: VirtualMachine) -> None:
    items: queue.Queue[int] = queue.Queue()
    time.sleep(2)
    _thread.start_new_thread(lambda: slept(3, lambda: items.put(now())), ())
    assert items.get() == machine.clock.host.now == 5 * S


def test_work_of_an_unjoined_thread_is_recorded(machine: VirtualMachine) -> None:
    done = []

    def work() -> None:
        machine.clock.host.spend(7 * S)
        done.append(True)

    _thread.start_new_thread(work, ())
    while not done:
        pass
    assert (machine.clock.host.now, machine.clock.host.last_work()) == (0, 7 * S)


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


def test_launching_threads_have_their_own_clocks_in_real_time() -> None:
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
import queue, threading, time
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
    items = queue.Queue(2)
    thread = threading.Thread(target=lambda: [(time.sleep(1 / 7), items.put(i)) for i in range(20)])
    thread.start()
    print([(items.get(), time.sleep(1 / 9), time.perf_counter())[2] for _ in range(20)])
    thread.join()
    while time.perf_counter() < 60:
        pass
    print(time.perf_counter(), time.process_time(), time.time() - today)
"""


@pytest.mark.long
def test_thread_times_are_reproducible(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(_PROGRAM)
    outputs = {printed("program.py", cwd=tmp_path) for _ in range(3)}
    assert len(outputs) == 1
    assert outputs.pop().count("\n") == 5

"""Threads use the virtual GPU, each with its own current device and clock, also if they are older than the machine."""

from __future__ import annotations

import _thread
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import pytest
import torch

from gpututor.devices.virtual import VirtualMachine, virtual_gpu
from tests.support.threads import S, now, slept, started
from tests.support.virtual_gpus import gradient, printed


def _in_thread(work: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result(timeout=60)


def test_tensors_are_made_in_threads_of_both_modules(two_gpus: VirtualMachine) -> None:
    result: queue.Queue[str] = queue.Queue()
    started(lambda: result.put(str(torch.ones(1, device="cuda:1")))).join()
    assert result.get() == "tensor([1.], device='cuda:1')"
    _thread.start_new_thread(lambda index: result.put(str(torch.ones(1, device=index).device)), (1,))
    assert result.get(timeout=60) == "cuda:1"


@pytest.mark.parametrize("arguments", [(len,), (None, ()), (len, [1]), (len, (), 3)])
def test_wrong_start_arguments_raise_pythons_error(two_gpus: VirtualMachine, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError):
        _thread.start_new_thread(*arguments)


def test_each_thread_has_its_own_current_device_and_cudas_errors(two_gpus: VirtualMachine) -> None:
    torch.cuda.set_device(1)
    assert _in_thread(torch.cuda.current_device) == 0
    assert torch.cuda.current_device() == 1
    with pytest.raises(RuntimeError, match="cuda:0 and cpu"):
        _in_thread(lambda: torch.ones(2, device="cuda") + torch.ones(2))


def test_backward_runs_in_a_thread(two_gpus: VirtualMachine) -> None:
    weight = torch.ones(2, device="cuda:1", requires_grad=True)

    def work() -> None:
        (weight * torch.arange(2.0, device="cuda:1")).sum().backward()

    _in_thread(work)
    assert str(weight.grad) == "tensor([0., 1.], device='cuda:1')"


def test_concurrent_backward_passes_accumulate_all_gradients(two_gpus: VirtualMachine) -> None:
    weight = torch.zeros(3, device="cuda", requires_grad=True)
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(lambda: (weight * 2).sum().backward()) for _ in range(20)]:
            done.result(timeout=60)
    assert gradient(weight).tolist() == [40.0] * 3


class _Worker:
    """Thread that runs queued calls in order."""

    def __init__(self) -> None:
        self._given: queue.Queue[Callable[[], Any] | None] = queue.Queue()
        self._results: queue.Queue[Any] = queue.Queue()
        self._thread = threading.Thread(target=self._loop, daemon=True)
        self._thread.start()

    def _loop(self) -> None:
        while (call := self._given.get()) is not None:
            try:
                self._results.put(call())
            except (RuntimeError, AssertionError) as error:
                self._results.put(error)

    def of(self, call: Callable[[], Any]) -> Any:
        """Return the call's result, or the exception, from that thread."""
        self._given.put(call)
        return self._results.get(timeout=60)

    def end(self) -> None:
        self._given.put(None)
        self._thread.join(timeout=60)
        assert not self._thread.is_alive()


def _place(*ignored: object) -> str:
    return str((torch.ones(2, device="cuda:1") + torch.ones(2).cuda(1)).device)


def test_pools_that_are_older_than_the_machine_work_on_its_gpus() -> None:
    with ThreadPoolExecutor(1) as executor, ThreadPool(1) as pool:
        assert executor.submit(abs, -1).result(timeout=60) == pool.apply(abs, (-1,)) == 1
        with virtual_gpu(2):
            assert executor.submit(_place).result(timeout=60) == "cuda:1"
            assert list(executor.map(_place, [1, 2])) == ["cuda:1"] * 2
            assert pool.apply(_place) == pool.apply_async(_place).get(60) == "cuda:1"
            assert pool.map(_place, [1]) == pool.starmap(_place, [(1, 2)]) == ["cuda:1"]
            assert list(pool.imap(_place, [1])) == list(pool.imap_unordered(_place, [1])) == ["cuda:1"]
        assert executor.submit(torch.device, "cuda").result(timeout=60) == torch.device("cuda")
        assert pool.apply(abs, (-1,)) == 1


_OLDER = """
import queue, threading
import torch
from gpututor.devices.virtual import virtual_gpu

given, found = queue.Queue(), queue.Queue()

def serve():
    while (call := given.get()) is not None:
        try:
            found.put(call())
        except Exception as error:
            found.put(f"{type(error).__name__}: {error}")

threading.Thread(target=serve, daemon=True).start()
with virtual_gpu(2):
    x = torch.ones(2, device="cuda")
    host = torch.ones(2)
    for call in (lambda: torch.ones(2, device="cuda"), host.cuda, lambda: host.to("cuda"), lambda: x + 1,
                 torch.cuda.current_device):
        given.put(call)
        print(found.get(timeout=60))
given.put(None)
"""


@pytest.mark.long
def test_an_older_thread_raises_with_advice() -> None:
    # In a process of its own: once C++ has started CUDA with success, it does not ask any more.
    *refusals, values, device = printed("-c", _OLDER).splitlines()
    assert len(refusals) == 3
    for refusal in refusals:
        assert refusal.startswith("RuntimeError: This thread was started before the virtual GPU was switched on")
    assert (values, device) == ("tensor([2., 2.], device='cuda:0')", "0")


def test_a_thread_that_outlives_the_machine_behaves_like_the_main_thread() -> None:
    with virtual_gpu(2):
        worker = _Worker()
        assert worker.of(_place) == "cuda:1"
        x = torch.ones(2, device="cuda")
    calls: tuple[Callable[[], Any], ...] = (
        lambda: (torch.ones(2) + 1).tolist(),
        lambda: torch.ones(2, device="cuda"),
        lambda: torch.ones(2).cuda(),
        lambda: torch.device(1),
        lambda: torch.ones(2).pin_memory(),
        lambda: torch.nn.Linear(2, 1)(torch.zeros(1, 2)).shape,
        lambda: x + 1,
    )
    for call in calls:
        result = worker.of(call)
        try:
            expected = call()
        except (RuntimeError, AssertionError) as error:
            expected = error
        assert (type(result), str(result)) == (type(expected), str(expected))
    with virtual_gpu(2):
        assert worker.of(_place) == "cuda:1", "another machine is seen again"
    worker.end()


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


_TIMES = """
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
    (tmp_path / "program.py").write_text(_TIMES)
    outputs = {printed("program.py", cwd=tmp_path) for _ in range(3)}
    assert len(outputs) == 1
    assert outputs.pop().count("\n") == 5

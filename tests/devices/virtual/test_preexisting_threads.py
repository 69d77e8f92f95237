"""Threads that start before the machine or outlive it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool
from typing import Any

import pytest
import torch

from gpututor.devices.virtual import virtual_gpu
from tests.support.virtual_gpus import printed


class _Worker:
    """Thread that runs queued calls in order."""

    def __init__(self) -> None:
        self._given: queue.Queue[Callable[[], Any] | None] = queue.Queue()
        self._found: queue.Queue[Any] = queue.Queue()
        self._thread = threading.Thread(target=self._loop, daemon=True)
        self._thread.start()

    def _loop(self) -> None:
        while (call := self._given.get()) is not None:
            try:
                self._found.put(call())
            except (RuntimeError, AssertionError) as error:
                self._found.put(error)

    def of(self, call: Callable[[], Any]) -> Any:
        """Return the call's result, or the exception, from that thread."""
        self._given.put(call)
        return self._found.get(timeout=60)

    def end(self) -> None:
        self._given.put(None)
        self._thread.join(timeout=60)
        assert not self._thread.is_alive()


def _place(*ignored: object) -> str:
    return str((torch.ones(2, device="cuda:1") + torch.ones(2).cuda(1)).device)


def test_an_executor_that_is_older_than_the_machine_works_on_its_gpus() -> None:
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(abs, -1).result(timeout=60) == 1
        with virtual_gpu(2):
            assert pool.submit(_place).result(timeout=60) == "cuda:1"
            assert list(pool.map(_place, [1, 2])) == ["cuda:1"] * 2
        assert pool.submit(torch.device, "cuda").result(timeout=60) == torch.device("cuda")


def test_a_pool_of_threads_that_is_older_than_the_machine_works_on_its_gpus() -> None:
    with ThreadPool(1) as pool:
        assert pool.apply(abs, (-1,)) == 1
        with virtual_gpu(2):
            assert pool.apply(_place) == pool.apply_async(_place).get(60) == "cuda:1"
            assert pool.map(_place, [1]) == pool.starmap(_place, [(1, 2)]) == ["cuda:1"]
            assert list(pool.imap(_place, [1])) == list(pool.imap_unordered(_place, [1])) == ["cuda:1"]
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

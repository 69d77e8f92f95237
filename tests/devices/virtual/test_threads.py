"""Threads use the virtual GPU, each with its own current device."""

from __future__ import annotations

import _thread
import queue
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

from gpututor.devices.virtual import VirtualMachine
from tests.support.threads import started


def _in_thread(work: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result(timeout=60)


def test_tensors_are_made_in_a_thread(two_gpus: VirtualMachine) -> None:
    results: list[str] = []
    started(lambda: results.append(str(torch.ones(1, device="cuda:1")))).join()
    assert results == ["tensor([1.], device='cuda:1')"]


def test_a_low_level_thread_sees_the_gpus(two_gpus: VirtualMachine) -> None:
    result: queue.Queue[str] = queue.Queue()
    _thread.start_new_thread(lambda index: result.put(str(torch.ones(1, device=index).device)), (1,))
    assert result.get(timeout=60) == "cuda:1"


@pytest.mark.parametrize("arguments", [(len,), (None, ()), (len, [1]), (len, (), 3)])
def test_wrong_start_arguments_raise_pythons_error(two_gpus: VirtualMachine, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError):
        _thread.start_new_thread(*arguments)


def test_each_thread_has_its_own_current_device(two_gpus: VirtualMachine) -> None:
    torch.cuda.set_device(1)
    assert _in_thread(torch.cuda.current_device) == 0
    assert torch.cuda.current_device() == 1


def test_an_error_of_a_thread_is_in_cudas_words(two_gpus: VirtualMachine) -> None:
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
    assert weight.grad is not None
    assert weight.grad.tolist() == [40.0] * 3


def test_thread_start_is_restored() -> None:
    from gpututor.devices.virtual import virtual_gpu

    before = threading.Thread._bootstrap_inner, _thread.start_new_thread  # type: ignore[attr-defined]
    with virtual_gpu():
        assert _thread.start_new_thread is not before[1]
    assert (threading.Thread._bootstrap_inner, _thread.start_new_thread) == before  # type: ignore[attr-defined]

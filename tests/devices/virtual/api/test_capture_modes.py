"""`capture_error_mode`: where waits spoil a capture."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

from gpututor.devices.virtual import VirtualMachine

Waiting = Callable[[Any], Any]
FORBIDDEN = "operation not permitted when stream is capturing"


def in_another_thread(call: Callable[[], Any]) -> BaseException | None:
    found: list[BaseException] = []

    def work() -> None:
        try:
            call()
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return found[0] if found else None


def capture(mode: str, call: Callable[[], Any]) -> torch.Tensor:
    x = torch.ones(4, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode=mode):
        y = x * 2
        call()
    x.fill_(5)
    graph.replay()
    return y


def refusal(mode: str, call: Callable[[], Any]) -> str:
    """What the call is told; the capture then fails at its end."""
    with pytest.raises(torch.AcceleratorError, match="operation failed due to a previous error") as caught:
        capture(mode, call)
    return str(caught.value.__context__)


WAITS: list[Waiting] = [
    lambda other: other.synchronize(),
    lambda other: other.query(),
    lambda other: torch.cuda.current_stream().synchronize(),
    lambda other: torch.ones(2, device="cuda").sum().item(),
    lambda other: torch.cuda.Event().query(),
]


@pytest.mark.parametrize("mode", ["thread_local", "relaxed"])
@pytest.mark.parametrize("wait", WAITS)
def test_another_thread_may_wait(two_gpus: VirtualMachine, mode: str, wait: Waiting) -> None:
    other, errors = torch.cuda.Stream(), []
    y = capture(mode, lambda: errors.append(in_another_thread(lambda: wait(other))))
    assert errors == [None]
    assert y.tolist() == [10] * 4


def test_no_thread_may_by_default(two_gpus: VirtualMachine) -> None:
    other, errors = torch.cuda.Stream(), []
    with pytest.raises(torch.AcceleratorError, match="operation failed due to a previous error during capture"):
        capture("global", lambda: errors.append(in_another_thread(other.synchronize)))
    assert FORBIDDEN in str(errors[0])


def test_the_capturing_thread_may_wait_for_others_where_nothing_is_forbidden(two_gpus: VirtualMachine) -> None:
    other = torch.cuda.Stream()
    assert capture("relaxed", other.synchronize).tolist() == [10] * 4
    assert FORBIDDEN in refusal("thread_local", other.synchronize)


@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
def test_a_captured_stream_and_its_gpu_are_never_waited_for(two_gpus: VirtualMachine, mode: str) -> None:
    assert FORBIDDEN in refusal(mode, lambda: torch.cuda.current_stream().synchronize())
    assert FORBIDDEN in refusal(mode, torch.cuda.synchronize)

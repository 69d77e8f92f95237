"""Threads, streams and events that outlive their machine; pinned tensors made from those of a GPU."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

from gpututor.devices.virtual import VirtualMachine, virtual_gpu


def in_a_thread_that_outlives(call: Callable[[torch.Tensor, Any, Any], Any]) -> BaseException | None:
    """What `call` raises once the virtual GPU is off, in a thread that was started while it was on."""
    found: list[BaseException] = []
    over = threading.Event()

    def work(x: torch.Tensor, stream: Any, event: Any) -> None:
        while not over.is_set():
            pass
        try:
            call(x, stream, event)
        except Exception as error:
            found.append(error)

    with virtual_gpu(1, "A100"):
        x, stream, event = torch.ones((), device="cuda"), torch.cuda.Stream(), torch.cuda.Event()
        event.record()
        thread = threading.Thread(target=work, args=(x, stream, event))
        thread.start()
    over.set()
    thread.join()
    return found[0] if found else None


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x, stream, event: x.item(), "This tensor lives on a virtual GPU that is switched off"),
        (lambda x, stream, event: float(x), "This tensor lives on"),
        (lambda x, stream, event: x + 1, "This tensor lives on"),
        (lambda x, stream, event: stream.synchronize(), "This stream lives on a virtual GPU that is switched off"),
        (lambda x, stream, event: stream.query(), "This stream lives on"),
        (lambda x, stream, event: event.synchronize(), "This event lives on a virtual GPU that is switched off"),
        (lambda x, stream, event: event.query(), "This event lives on"),
        (lambda x, stream, event: event.record(), "This event lives on"),
        # In the middle of a call, when the device has been told to C++.
        (lambda x, stream, event: torch.ones(2, device="meta:0"), "this thread works on is switched off"),
    ],
)
def test_a_thread_that_outlives_the_machine_is_told_so(call: Callable[..., Any], words: str) -> None:
    error = in_a_thread_that_outlives(call)
    assert isinstance(error, RuntimeError)
    assert words in str(error)
    assert "meta" not in str(error)


def test_such_a_thread_may_still_use_the_cpu_and_its_own_meta_tensors() -> None:
    def call(x: torch.Tensor, stream: Any, event: Any) -> None:
        assert torch.ones(2).sum().item() == 2
        assert torch.ones(2, device="meta").sum().shape == ()

    assert in_a_thread_that_outlives(call) is None


MAKING: list[Callable[[torch.Tensor], torch.Tensor]] = [
    lambda x: torch.empty_like(x, device="cpu", pin_memory=True),
    lambda x: torch.zeros_like(x, device="cpu", pin_memory=True),
    lambda x: torch.ones_like(x, device=torch.device("cpu"), pin_memory=True),
    lambda x: torch.full_like(x, 3.0, device="cpu", pin_memory=True),
    lambda x: torch.rand_like(x, device="cpu", pin_memory=True),
    lambda x: x.new_empty((2, 3), device="cpu", pin_memory=True),
    lambda x: x.new_zeros((2, 3), device="cpu", pin_memory=True),
    lambda x: torch.empty_strided(x.size(), x.stride(), device="cpu", pin_memory=True),
    lambda x: torch.empty_like(x.cpu(), pin_memory=True),
    lambda x: x.cpu().new_full((2, 3), 1.0, pin_memory=True),
]


@pytest.mark.parametrize("make", MAKING)
def test_a_pinned_buffer_like_a_tensor_of_the_gpu(
    two_gpus: VirtualMachine, make: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    x = torch.ones(2, 3, device="cuda")
    made = make(x)
    assert (made.device.type, made.shape, made.is_pinned()) == ("cpu", (2, 3), True)
    made.copy_(x, non_blocking=True)
    torch.cuda.synchronize()
    assert made.sum() == 6


@pytest.mark.parametrize(
    "make",
    [
        lambda x: torch.empty_like(x, pin_memory=True),
        lambda x: torch.empty_like(x, device="cuda", pin_memory=True),
        lambda x: x.new_empty(2, pin_memory=True),
    ],
)
def test_memory_of_a_gpu_cannot_be_pinned(two_gpus: VirtualMachine, make: Callable[[torch.Tensor], Any]) -> None:
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        make(torch.ones(2, device="cuda"))

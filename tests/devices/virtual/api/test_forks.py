"""Forked children: CUDA cannot be used again after a fork."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
import torch

from gpututor.devices.virtual import virtual_gpu

_REFUSED = (
    "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use "
    "the 'spawn' start method"
)


def _said_in_child(call: Callable[[], Any]) -> str:
    """Return the result or error of `call` in a forked child, as text."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = str(call())
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read().decode()
    os.waitpid(child, 0)
    return said


_STARTS: dict[str, Callable[[], Any]] = {
    "cuda": lambda: torch.ones(1).cuda(),
    "to": lambda: torch.ones(1).to("cuda:0"),
    "factory": lambda: torch.zeros(1, device="cuda"),
    "module": lambda: torch.nn.Linear(1, 1).cuda(),
    "set_device": lambda: torch.cuda.set_device(0),
    "properties": lambda: torch.cuda.get_device_properties(0),
    "synchronize": lambda: torch.cuda.synchronize(),
    "generator": lambda: torch.Generator("cuda"),
}


@pytest.mark.parametrize("call", _STARTS.values(), ids=_STARTS)
def test_a_forked_child_cannot_use_a_gpu_that_had_started(call: Callable[[], Any]) -> None:
    with virtual_gpu(1):
        torch.ones(1, device="cuda")
        assert _said_in_child(call) == _REFUSED
        assert torch.ones(1).cuda().item() == 1.0


def test_work_on_an_inherited_tensor_raises_an_initialization_error() -> None:
    with virtual_gpu(1):
        x = torch.ones(2, device="cuda")
        for call in (lambda: x + 1, x.cpu, x.clone, lambda: x.add_(1), lambda: x[0].item()):
            assert _said_in_child(call).startswith("AcceleratorError: CUDA error: initialization error\n")
        assert x.tolist() == [1.0, 1.0]


def test_a_forked_child_continues_on_the_cpu() -> None:
    with virtual_gpu(1):
        torch.ones(1, device="cuda")
        assert _said_in_child(lambda: (torch.manual_seed(1).initial_seed(), (torch.ones(2) + 1).tolist())) == (
            "(1, [2.0, 2.0])"
        )
        assert _said_in_child(lambda: (torch.cuda._is_in_bad_fork(), torch.cuda.is_initialized())) == "(True, False)"
        assert not torch.cuda._is_in_bad_fork()


def test_a_child_forked_before_cuda_starts_uses_its_own_gpus() -> None:
    with virtual_gpu(2):
        assert torch.cuda.is_available()
        torch.manual_seed(3)
        assert not torch.cuda.is_initialized()
        assert _said_in_child(lambda: torch.ones(2, device="cuda:1").sum().item()) == "2.0"
        assert not torch.cuda.is_initialized()

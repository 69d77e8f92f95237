"""CPU work that the virtual clock cannot price is detected."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from time import perf_counter_ns, process_time_ns  # imported by name: a machine replaces the functions of `time`
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual.execution.host_work import SHORT_NS, Watch, loader_forks
from tests.support.threads import started

WORK_NS = 60_000_000
NOTICED_NS = WORK_NS // 2


def _busy() -> None:
    """Use the processor for as long as `WORK_NS`, in NumPy and Python."""
    ends = process_time_ns() + WORK_NS
    matrix = np.ones((16, 16))
    while process_time_ns() < ends:
        matrix = np.tanh(matrix @ matrix)


def _between(x: Tensor) -> None:
    _busy()
    x.sum()


def _in_an_operator(x: Tensor) -> None:
    def body(x: Tensor) -> Tensor:
        _busy()
        return x + 1

    torch.library.custom_op("test_unpriced::busy", body, mutates_args=())(x)


def _in_a_backward_pass(x: Tensor) -> None:
    leaf = x.clone().requires_grad_()
    leaf.register_hook(lambda gradient: _busy())
    leaf.sum().backward()


def _in_a_child(x: Tensor) -> None:
    child = os.fork()
    if child == 0:
        try:
            _busy()
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def _in_a_child_that_stays(x: Tensor) -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _busy()
            os.write(writing, b"1")
            threading.Event().wait(60)
        finally:
            os._exit(0)
    os.read(reading, 1)
    _children.append(child)


_children: list[int] = []
_WORK: list[Callable[[Tensor], None]] = [
    _between,
    lambda x: started(_busy).join(),
    _in_an_operator,
    _in_a_backward_pass,
    _in_a_child,
    _in_a_child_that_stays,
]


@pytest.mark.parametrize("work", _WORK, ids=lambda work: work.__name__.strip("_"))
def test_work_without_a_price_is_detected(work: Callable[[Tensor], None], recorder: Recorder) -> None:
    x = torch.ones(4, 4, device="cuda")
    torch.library.custom_op("test_unpriced::warm", lambda x: x + 1, mutates_args=(), schema="(Tensor x) -> Tensor")(x)
    watch = Watch()
    work(x)
    try:
        assert watch.read().nanoseconds >= NOTICED_NS
    finally:
        for child in _children:
            os.kill(child, 9)
            os.waitpid(child, 0)
        _children.clear()


def test_the_line_with_most_of_the_work_is_recorded(recorder: Recorder) -> None:
    x = torch.ones(4, 4, device="cuda")
    watch = Watch()
    x.sum()
    _between(x)
    line = _between.__code__.co_firstlineno + 2
    assert watch.read().line == line


def test_torchs_own_calls_are_not_counted(recorder: Recorder) -> None:
    x = torch.ones(64, 64, device="cuda")
    host = torch.ones(64, 64)
    watch = Watch()
    ends = process_time_ns() + WORK_NS
    while process_time_ns() < ends:
        x = (x @ x).tanh()
        host = (host @ host).tanh()
    assert watch.read().nanoseconds < NOTICED_NS


def test_replaying_a_graph_is_not_counted(recorder: Recorder) -> None:
    x = torch.ones(256, 256, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(10):
            x.copy_((x @ x).tanh())
    watch = Watch()
    ends = process_time_ns() + WORK_NS
    while process_time_ns() < ends:
        graph.replay()
    assert watch.read().nanoseconds < NOTICED_NS


def test_short_pauses_are_not_counted_when_the_thread_waits_for_a_processor(recorder: Recorder) -> None:
    x = torch.ones(4, 4, device="cuda")
    watch = Watch()
    for _ in range(2 * WORK_NS // SHORT_NS):
        ends = perf_counter_ns() + SHORT_NS // 2
        while perf_counter_ns() < ends:
            pass
        x.sum()
    threading.Event().wait(WORK_NS / 1e9)  # without a processor
    x.sum()
    assert watch.read().nanoseconds < NOTICED_NS


@pytest.mark.parametrize(("module", "is_counted"), [("torch.utils.data.dataloader", False), ("multiprocessing", True)])
def test_forking_a_loaders_workers_is_no_work_without_a_price(
    module: str, is_counted: bool, recorder: Recorder
) -> None:
    x = torch.ones(4, 4, device="cuda")
    caller: dict[str, Any] = {"__name__": module}
    exec("def fork(forks, work):\n    forks.before()\n    work()\n    forks.after()", caller)
    watch = Watch()
    caller["fork"](loader_forks, _busy)
    x.sum()
    assert (watch.read().nanoseconds >= NOTICED_NS) is is_counted

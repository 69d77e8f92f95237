"""Captures of CUDA graphs: how they begin and end, and what they do not allow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from gpututor.devices.virtual import VirtualMachine, virtual_gpu

CUDA: Any = torch.cuda
NOT_PERMITTED = "CUDA error: operation not permitted when stream is capturing"
FAILED = "CUDA error: operation failed due to a previous error during capture"


def _captured(work: Callable[[], Any], **options: Any) -> tuple[Any, Any]:
    graph = CUDA.CUDAGraph()
    with CUDA.graph(graph, **options):
        out = work()
    return graph, out


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.sum().item(),
        lambda x: x.nonzero(),
        lambda x: CUDA.synchronize(),
        lambda x: torch.accelerator.synchronize(),
        lambda x: CUDA.current_stream().synchronize(),
        lambda x: CUDA.current_stream().query(),
        lambda x: CUDA.default_stream().synchronize(),
        lambda x: x.copy_(torch.ones(4).pin_memory()),
        lambda x: str(x),
        lambda x: bool(x.any()),
    ],
)
def test_waiting_ends_a_capture(two_gpus: VirtualMachine, call: Callable[[Any], Any]) -> None:
    x = torch.ones(4, device="cuda")
    graph = CUDA.CUDAGraph()
    with CUDA.stream(CUDA.Stream()):
        graph.capture_begin()
        with pytest.raises(torch.AcceleratorError, match=NOT_PERMITTED):
            call(x)
        with pytest.raises(torch.AcceleratorError, match=FAILED):
            x.add(1)
        with pytest.raises(torch.AcceleratorError, match=FAILED):
            graph.capture_end()
    assert x.tolist() == [1.0] * 4
    with pytest.raises(RuntimeError, match="Called CUDAGraph::replay without a preceding successful capture"):
        graph.replay()
    graph.reset()
    with CUDA.graph(graph):
        y = x + 1
    graph.replay()
    assert y.tolist() == [2.0] * 4


@pytest.mark.parametrize("call", [lambda x: x.cpu(), lambda x: x.copy_(torch.ones(4)), lambda x: torch.ones(4).cuda()])
def test_pageable_copies_are_refused_in_torchs_words(two_gpus: VirtualMachine, call: Callable[[Any], Any]) -> None:
    x = torch.ones(4, device="cuda")
    graph = CUDA.CUDAGraph()
    with CUDA.graph(graph):
        with pytest.raises(RuntimeError, match="during CUDA graph capture unless the CPU tensor is pinned"):
            call(x)
        y = x + 1
    graph.replay()
    assert y.tolist() == [2.0] * 4


def test_what_cannot_be_replayed_is_refused_by_name(two_gpus: VirtualMachine) -> None:
    x = torch.ones(2, 2, device="cuda")
    sparse = x.to_sparse()
    inner, _ = _captured(lambda: x + 1)
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: sparse * 2, "sparse tensors in CUDA graphs"),
        (inner.replay, "a CUDA graph within another"),
        (lambda: CUDA.CUDAGraph().capture_begin(), "two captures of CUDA graphs at the same time"),
        (lambda: x.to("cuda:1"), "CUDA graphs on several GPUs"),
        (lambda: nn.utils.rnn.pack_padded_sequence(x[..., None], torch.tensor([2, 1])), "_pack_padded_sequence"),
    ]
    for call, words in calls:
        graph = CUDA.CUDAGraph()
        stream = CUDA.Stream()
        with CUDA.stream(stream):
            graph.capture_begin()
            with pytest.raises(NotImplementedError, match=words):
                call()
            if two_gpus.capture is not None and two_gpus.capture.failed:
                with pytest.raises(torch.AcceleratorError, match=FAILED):
                    graph.capture_end()
            else:
                x.add(1)
                graph.capture_end()


def test_captures_begin_and_end_as_torch_wants_it(two_gpus: VirtualMachine) -> None:
    graph = CUDA.CUDAGraph()
    with pytest.raises(RuntimeError, match="CUDA graphs must be captured on a non-default stream"):
        graph.capture_begin()
    with pytest.raises(torch.AcceleratorError, match="the operation cannot be performed in the present state"):
        graph.capture_end()
    with pytest.raises(RuntimeError, match=r"Called CUDAGraph::pool\(\) without a preceding successful capture"):
        graph.pool()
    first, second = CUDA.Stream(), CUDA.Stream()
    with CUDA.stream(first):
        graph.capture_begin()
        assert CUDA.is_current_stream_capturing()
        assert (first.is_capturing(), second.is_capturing()) == (True, False)
        torch.ones(1, device="cuda")
    assert not CUDA.is_current_stream_capturing()
    with CUDA.stream(second), pytest.raises(RuntimeError, match="Capture must end on the same stream it began on"):
        graph.capture_end()
    with CUDA.stream(first):
        graph.capture_end()
        with pytest.raises(RuntimeError, match="This CUDAGraph instance already owns a captured graph"):
            graph.capture_begin()
    with pytest.warns(UserWarning, match="The CUDA Graph is empty"):
        _captured(lambda: None)


def test_forks_must_come_from_the_capture_and_come_back(two_gpus: VirtualMachine) -> None:
    x, other = torch.ones(2, device="cuda"), CUDA.Stream()
    outside = CUDA.current_stream().record_event()

    def forked() -> None:
        other.wait_stream(CUDA.current_stream())
        with CUDA.stream(other):
            x.add(1)

    for work, words in (
        (forked, "CUDA error: capturing stream has unjoined work"),
        (outside.wait, FAILED),
        (lambda: CUDA.default_stream().wait_stream(CUDA.current_stream()), FAILED),
    ):
        with pytest.raises(torch.AcceleratorError, match=words):
            _captured(work)
        CUDA.set_stream(CUDA.default_stream())


def test_an_event_of_a_graph_has_no_time(two_gpus: VirtualMachine) -> None:
    event = CUDA.Event(enable_timing=True)

    def work() -> None:
        torch.ones(1, device="cuda")
        event.record()

    _captured(work)
    for use in (event.query, event.synchronize, event.wait, lambda: event.elapsed_time(event)):
        with pytest.raises(torch.AcceleratorError, match="an event last recorded in a capturing stream"):
            use()
    event.record()
    event.synchronize()


def test_an_optimiser_that_cannot_be_captured_says_so_as_on_cuda(two_gpus: VirtualMachine) -> None:
    weight = nn.Parameter(torch.ones(2, device="cuda"))
    weight.grad = torch.ones(2, device="cuda")
    adam = torch.optim.Adam([weight])
    with pytest.raises(RuntimeError, match="capturable"):
        _captured(adam.step)


def test_graphs_of_another_machine_say_so() -> None:
    with virtual_gpu():
        x = torch.ones(1, device="cuda")
        graph, _ = _captured(lambda: x + 1)
        assert isinstance(CUDA.graph(graph), CUDA.graphs.graph)
    assert CUDA.graph.default_capture_stream is None
    with virtual_gpu(), pytest.raises(RuntimeError, match="captured on a virtual GPU that is switched off"):
        graph.replay()


def test_graphs_that_are_kept_are_made_ready_later(two_gpus: VirtualMachine) -> None:
    graph = CUDA.CUDAGraph(keep_graph=True)
    with pytest.raises(RuntimeError, match=r"capture_end\(\) must have been called before calling instantiate"):
        graph.instantiate()
    x = torch.ones(1, device="cuda")
    with CUDA.graph(graph):
        y = x + 1
    graph.instantiate()
    x.fill_(4)
    graph.replay()
    assert y.item() == 5
    with pytest.raises(NotImplementedError, match=r"torch.cuda.CUDAGraph.raw_cuda_graph"):
        graph.raw_cuda_graph()

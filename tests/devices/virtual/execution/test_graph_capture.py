"""Captures of CUDA graphs: begin, end, forbidden calls, and `capture_error_mode`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from gpututor.devices.virtual import VirtualMachine, virtual_gpu
from tests.support.threads import started
from tests.support.virtual_gpus import captured

CUDA: Any = torch.cuda
NOT_PERMITTED = "CUDA error: operation not permitted when stream is capturing"
FAILED = "CUDA error: operation failed due to a previous error during capture"


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
def test_synchronizing_invalidates_a_capture(two_gpus: VirtualMachine, call: Callable[[Any], Any]) -> None:
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


def test_calls_that_cannot_be_replayed_are_refused_by_name(two_gpus: VirtualMachine) -> None:
    x = torch.ones(2, 2, device="cuda")
    sparse = x.to_sparse()
    inner, _ = captured(lambda: x + 1)
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


def test_capture_begin_and_end_raise_torchs_errors(two_gpus: VirtualMachine) -> None:
    graph = CUDA.CUDAGraph()
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
        captured(lambda: None)


def test_forked_streams_must_join_the_capture(two_gpus: VirtualMachine) -> None:
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
            captured(work)
        CUDA.set_stream(CUDA.default_stream())


def test_captured_events_and_optimizers_without_capturable_raise_as_on_cuda(two_gpus: VirtualMachine) -> None:
    event = CUDA.Event(enable_timing=True)

    def work() -> None:
        torch.ones(1, device="cuda")
        event.record()

    captured(work)
    for use in (event.query, event.synchronize, event.wait, lambda: event.elapsed_time(event)):
        with pytest.raises(torch.AcceleratorError, match="an event last recorded in a capturing stream"):
            use()
    event.record()
    event.synchronize()
    weight = nn.Parameter(torch.ones(2, device="cuda"))
    weight.grad = torch.ones(2, device="cuda")
    adam = torch.optim.Adam([weight])
    with pytest.raises(RuntimeError, match="capturable"):
        captured(adam.step)


def test_graphs_of_another_machine_raise() -> None:
    with virtual_gpu():
        x = torch.ones(1, device="cuda")
        graph, _ = captured(lambda: x + 1)
        assert isinstance(CUDA.graph(graph), CUDA.graphs.graph)
    assert CUDA.graph.default_capture_stream is None
    with virtual_gpu(), pytest.raises(RuntimeError, match="captured on a virtual GPU that is switched off"):
        graph.replay()


def test_keep_graph_defers_instantiation(two_gpus: VirtualMachine) -> None:
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


Waiting = Callable[[Any], Any]


def in_another_thread(call: Callable[[], Any]) -> BaseException | None:
    results: list[BaseException] = []

    def work() -> None:
        try:
            call()
        except Exception as error:
            results.append(error)

    started(work).join()
    return results[0] if results else None


def capture(mode: str, call: Callable[[], Any]) -> torch.Tensor:
    x = torch.ones(4, device="cuda")
    graph, (y, _) = captured(lambda: (x * 2, call()), capture_error_mode=mode)
    x.fill_(5)
    graph.replay()
    assert isinstance(y, torch.Tensor)
    return y


def refusal(mode: str, call: Callable[[], Any]) -> str:
    """Return the error of the call; the capture then fails at its end."""
    with pytest.raises(torch.AcceleratorError, match=FAILED) as caught:
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
def test_another_thread_may_synchronize_in_other_modes(two_gpus: VirtualMachine, mode: str, wait: Waiting) -> None:
    other, errors = torch.cuda.Stream(), []
    y = capture(mode, lambda: errors.append(in_another_thread(lambda: wait(other))))
    assert errors == [None]
    assert y.tolist() == [10] * 4


def test_threads_may_synchronize_by_the_mode_of_the_capture(two_gpus: VirtualMachine) -> None:
    other, errors = torch.cuda.Stream(), []
    with pytest.raises(torch.AcceleratorError, match=FAILED):
        capture("global", lambda: errors.append(in_another_thread(other.synchronize)))
    assert NOT_PERMITTED in str(errors[0])
    assert capture("relaxed", other.synchronize).tolist() == [10] * 4
    assert NOT_PERMITTED in refusal("thread_local", other.synchronize)


@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
def test_a_capturing_stream_cannot_be_synchronized_in_any_mode(two_gpus: VirtualMachine, mode: str) -> None:
    assert NOT_PERMITTED in refusal(mode, lambda: torch.cuda.current_stream().synchronize())
    assert NOT_PERMITTED in refusal(mode, torch.cuda.synchronize)


def test_indexes_that_a_capture_makes_may_be_undefined_until_the_replay(two_gpus: VirtualMachine) -> None:
    x = torch.arange(6.0, device="cuda").view(3, 2).requires_grad_()
    table = torch.arange(8.0, device="cuda").view(4, 2)

    def rows(x: torch.Tensor) -> torch.Tensor:
        places = torch.arange(2, -1, -1, device=x.device)
        return (
            torch.gather(x, 0, places.view(-1, 1).repeat(1, 2)) + table[places] + nn.functional.embedding(places, table)
        )

    graphed: Any = torch.cuda.make_graphed_callables(rows, (x,))
    out = graphed(x)
    assert torch.equal(out, rows(x))
    (out * torch.arange(3.0, device="cuda").view(3, 1)).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[2, 2], [1, 1], [0, 0]]


def test_a_wrong_index_is_an_error_of_the_replay(two_gpus: VirtualMachine) -> None:
    x, places = torch.zeros(3, device="cuda"), torch.tensor([7], device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x[places]
    with pytest.raises(RuntimeError, match="device-side assert"):
        graph.replay()

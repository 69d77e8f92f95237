"""CUDA graphs: what a capture leaves, what a replay does, and the words for what cannot be captured."""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from tests.fidelity.program import ANY, MIB, gives, on, raises, reserved
from tests.fidelity.programs.streams import CYCLES, timed

NOTES = "docs/source/notes/cuda.rst: CUDA graphs"
GRAPH = "aten/src/ATen/cuda/CUDAGraph.cpp"
CAPTURE = "CUDA Runtime API, docs.nvidia.com: cudaStreamBeginCapture"


def captured(work: Any) -> tuple[Any, Any]:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = work()
    return graph, out


def on_a_side_stream(work: Any) -> Any:
    """Capture by hand, to show the error of the capture itself."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(torch.cuda.Stream()):
        graph.capture_begin()
        torch.ones(1, device="cuda")
        try:
            return work()
        finally:
            with contextlib.suppress(RuntimeError):
                graph.capture_end()


@gives(on("cuda:0", "float32", [3.0, 5.0]), source=NOTES)
def a_replay_reads_its_inputs_anew() -> Any:
    x = torch.zeros(2, device="cuda")
    graph, y = captured(lambda: x * 2 + 1)
    x.copy_(torch.tensor([1.0, 2.0]))
    graph.replay()
    return y


@gives([0.0, 1.0, 3.0], source=NOTES)
def a_capture_runs_nothing_and_each_replay_runs_it_once() -> Any:
    x = torch.zeros(1, device="cuda")
    graph, _ = captured(lambda: x.add_(1))
    seen = [x.item()]
    graph.replay()
    seen.append(x.item())
    graph.replay()
    graph.replay()
    return [*seen, x.item()]


@gives((True, False), source="aten/src/ATen/cuda/CUDAGeneratorImpl.cpp: Note [CUDA Graph-safe RNG states]")
def each_replay_draws_new_numbers_and_a_capture_none() -> Any:
    torch.cuda.manual_seed(7)
    expected = torch.rand(4, device="cuda").tolist()
    torch.cuda.manual_seed(7)
    graph, drawn = captured(lambda: torch.rand(4, device="cuda"))
    graph.replay()
    first = drawn.tolist()
    graph.replay()
    return first == expected, drawn.tolist() == first


@gives((False, True, False), source="torch/cuda/graphs.py: is_current_stream_capturing")
def a_program_can_ask_whether_it_is_captured() -> Any:
    graph = torch.cuda.CUDAGraph()
    before = torch.cuda.is_current_stream_capturing()
    with torch.cuda.graph(graph):
        within = torch.cuda.is_current_stream_capturing()
        torch.ones(1, device="cuda")
    return before, within, torch.cuda.is_current_stream_capturing()


@gives(True, source=NOTES)
def many_small_kernels_are_faster_in_a_graph() -> Any:
    x = torch.zeros(8, device="cuda")

    def work() -> None:
        for _ in range(200):
            x.add_(1)

    def elapsed(run: Any) -> float:
        run()
        torch.cuda.synchronize()
        start, end = timed(), timed()
        start.record()
        run()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end))

    graph, _ = captured(work)
    return elapsed(graph.replay) < elapsed(work)


@gives(True, source=f"{NOTES}: usage with multiple streams")
def branches_of_a_graph_run_beside_each_other() -> Any:
    side = torch.cuda.Stream()

    def forked() -> None:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.cuda._sleep(CYCLES)
        torch.cuda._sleep(CYCLES)
        torch.cuda.current_stream().wait_stream(side)

    graph, _ = captured(forked)
    start, end, alone = timed(), timed(), timed()
    start.record()
    torch.cuda._sleep(CYCLES)
    alone.record()
    graph.replay()
    end.record()
    end.synchronize()
    return alone.elapsed_time(end) < 1.5 * start.elapsed_time(alone)


@gives((20 * MIB, 20 * MIB, 0), source=f"{NOTES}: graph memory management")
def a_graph_has_memory_of_its_own_as_long_as_it_lives() -> Any:
    x = torch.ones(1, device="cuda")
    first, _ = captured(lambda: x + 1)  # from the first graph on, a generator may have memory for its seed
    before = reserved()
    graph, y = captured(lambda: x.expand(MIB) * 2)
    taken = reserved() - before
    del y
    torch.cuda.empty_cache()
    kept = reserved() - before
    del graph
    torch.cuda.empty_cache()
    after = reserved() - before
    first.replay()
    return taken, kept, after


@raises(
    RuntimeError,
    "CUDA graphs must be captured on a non-default stream. "
    "(However, after capture, it's ok to replay them on the default stream.)",
    source=f"{GRAPH}: capture_begin",
    breaks=True,
)
def the_default_stream_cannot_be_captured() -> Any:
    torch.cuda.CUDAGraph().capture_begin()


@raises(
    RuntimeError,
    "Called CUDAGraph::replay without a preceding successful capture.",
    source=f"{GRAPH}: replay",
)
def a_graph_without_a_capture_cannot_be_replayed() -> Any:
    torch.cuda.CUDAGraph().replay()


@raises(
    torch.AcceleratorError,
    f"CUDA error: operation not permitted when stream is capturing{ANY}",
    source=f"{CAPTURE}; {NOTES}: constraints",
    breaks=True,
)
def item_cannot_be_captured() -> Any:
    x = torch.ones(1, device="cuda")
    return on_a_side_stream(lambda: x.sum().item())


@raises(
    torch.AcceleratorError,
    f"CUDA error: operation not permitted when stream is capturing{ANY}",
    source=f"{CAPTURE}; {NOTES}: constraints",
    breaks=True,
)
def a_wait_for_the_gpu_cannot_be_captured() -> Any:
    return on_a_side_stream(torch.cuda.synchronize)


@raises(
    RuntimeError,
    "Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU tensor is pinned. "
    "Please use tensor.pin_memory() or allocate the tensor with pin_memory=True.",
    source="aten/src/ATen/native/cuda/Copy.cu: copy_kernel_cuda",
    breaks=True,
)
def a_pageable_copy_cannot_be_captured() -> Any:
    x = torch.ones(4)
    return on_a_side_stream(lambda: x.cuda())


@raises(
    torch.AcceleratorError,
    f"CUDA error: capturing stream has unjoined work{ANY}",
    source="CUDA Runtime API, docs.nvidia.com: cudaErrorStreamCaptureUnjoined",
    breaks=True,
)
def branches_must_be_joined() -> Any:
    side = torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(torch.cuda.Stream()):
        graph.capture_begin()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.cuda._sleep(1)
        graph.capture_end()

"""Races of graph replays: a replay reads and writes the memory of the captured operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import virtual_gpu
from gpututor.trace.events import Kind

Program = Callable[[Any, torch.Tensor, torch.Tensor, Any, Any], None]


def hazards_of(program: Program) -> list[str]:
    """Call `program` with a graph, its input and output, a side stream and the current stream; return its hazards."""
    recorder = Recorder([__file__])
    with virtual_gpu(1, "A100", recorder=recorder):
        kept = torch.zeros(64, device="cuda")
        given, graph = torch.ones(64, device="cuda"), torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            out = (given * 2).relu() + torch.ones(64, device="cuda")
            kept.copy_(out)
        torch.cuda.synchronize()
        watched = kept if "kept" in program.__name__ else out
        program(graph, given, watched, torch.cuda.Stream(), torch.cuda.current_stream())
        torch.cuda.synchronize()
        del given, out, watched
    return [event.name for event in recorder.complete() if event.kind is Kind.HAZARD]


def test_reading_the_output_during_a_replay_is_a_race() -> None:
    def program(graph: Any, given: torch.Tensor, out: torch.Tensor, side: Any, current: Any) -> None:
        graph.replay()
        with torch.cuda.stream(side):
            out.sum()

    assert hazards_of(program) == ["read after write"]


def test_filling_the_input_during_a_replay_is_a_race() -> None:
    def program(graph: Any, given: torch.Tensor, out: torch.Tensor, side: Any, current: Any) -> None:
        graph.replay()
        with torch.cuda.stream(side):
            given.zero_()

    assert hazards_of(program) == ["write after read"]


def test_a_replay_during_another_streams_write_is_a_race() -> None:
    def program(graph: Any, given: torch.Tensor, out: torch.Tensor, side: Any, current: Any) -> None:
        with torch.cuda.stream(side):
            given.fill_(3)
        graph.replay()

    assert hazards_of(program) == ["read after write"]


def test_a_synchronized_replay_loop_has_no_race() -> None:
    def program(graph: Any, given: torch.Tensor, out: torch.Tensor, side: Any, current: Any) -> None:
        for i in range(3):
            with torch.cuda.stream(side):
                given.fill_(i)
            current.wait_stream(side)
            graph.replay()
            out.sum()
            side.wait_stream(current)

    assert hazards_of(program) == []


def test_deleting_the_output_during_a_replay_is_no_race() -> None:
    def program(graph: Any, given: torch.Tensor, out: torch.Tensor, side: Any, current: Any) -> None:
        graph.replay()
        del out

    assert hazards_of(program) == []


def test_reading_a_captured_copys_target_too_early_is_a_race() -> None:
    def reads_kept(graph: Any, given: torch.Tensor, kept: torch.Tensor, side: Any, current: Any) -> None:
        graph.replay()
        with torch.cuda.stream(side):
            kept.sum()

    assert hazards_of(reads_kept) == ["read after write"]


def concurrent_replays(recorder: Recorder, *, shared: bool, waits: bool) -> list[str]:
    """Replay two graphs with temporary memory on two streams; return the hazards."""
    x = torch.ones(1 << 20, device="cuda")
    pool = torch.cuda.graph_pool_handle() if shared else None
    graphs, kept = [torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()], []
    for graph in graphs:
        with torch.cuda.graph(graph, pool=pool):
            kept.append((x * 2).relu() + (x * 3))
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    graphs[0].replay()
    if waits:
        side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        graphs[1].replay()
    torch.cuda.synchronize()
    return [event.name for event in recorder.complete() if event.kind is Kind.HAZARD]


def test_graphs_with_one_pool_at_the_same_time_are_a_hazard(recorder: Recorder) -> None:
    assert concurrent_replays(recorder, shared=True, waits=False) == ["graphs share a pool"]


def test_graphs_with_pools_of_their_own_may_overlap(recorder: Recorder) -> None:
    assert concurrent_replays(recorder, shared=False, waits=False) == []


def test_graphs_with_one_pool_may_follow_each_other(recorder: Recorder) -> None:
    assert concurrent_replays(recorder, shared=True, waits=True) == []

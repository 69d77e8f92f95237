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
    """`program` is given a graph, its input and output, another stream and the current one."""
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
    return [one.name for one in recorder.complete() if one.kind is Kind.HAZARD]


def test_the_output_is_read_before_it_is_there() -> None:
    def program(graph: Any, given: torch.Tensor, out: torch.Tensor, side: Any, current: Any) -> None:
        graph.replay()
        with torch.cuda.stream(side):
            out.sum()

    assert hazards_of(program) == ["read after write"]


def test_the_input_is_filled_while_a_replay_reads_it() -> None:
    def program(graph: Any, given: torch.Tensor, out: torch.Tensor, side: Any, current: Any) -> None:
        graph.replay()
        with torch.cuda.stream(side):
            given.zero_()

    assert hazards_of(program) == ["write after read"]


def test_a_replay_reads_what_another_stream_still_writes() -> None:
    def program(graph: Any, given: torch.Tensor, out: torch.Tensor, side: Any, current: Any) -> None:
        with torch.cuda.stream(side):
            given.fill_(3)
        graph.replay()

    assert hazards_of(program) == ["read after write"]


def test_a_loop_in_order() -> None:
    def program(graph: Any, given: torch.Tensor, out: torch.Tensor, side: Any, current: Any) -> None:
        for i in range(3):
            with torch.cuda.stream(side):
                given.fill_(i)
            current.wait_stream(side)
            graph.replay()
            out.sum()
            side.wait_stream(current)

    assert hazards_of(program) == []


def test_the_graphs_own_memory_may_go_while_it_runs() -> None:
    def program(graph: Any, given: torch.Tensor, out: torch.Tensor, side: Any, current: Any) -> None:
        graph.replay()
        del out

    assert hazards_of(program) == []


def test_what_a_captured_copy_writes_to_is_read_too_early() -> None:
    def reads_kept(graph: Any, given: torch.Tensor, kept: torch.Tensor, side: Any, current: Any) -> None:
        graph.replay()
        with torch.cuda.stream(side):
            kept.sum()

    assert hazards_of(reads_kept) == ["read after write"]

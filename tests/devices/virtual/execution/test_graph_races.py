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

"""Races of graph replays: a replay reads and writes the memory of the captured operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from gpututor.trace.events import Kind
from tests.support.virtual_gpus import names_of, traced

Program = Callable[[Any, torch.Tensor, torch.Tensor, Any, Any], None]
"""A program with a graph, its input and output, a side stream and the current stream."""


def run(program: Program) -> None:
    kept = torch.zeros(64, device="cuda")
    given, graph = torch.ones(64, device="cuda"), torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        out = (given * 2).relu() + torch.ones(64, device="cuda")
        kept.copy_(out)
    torch.cuda.synchronize()
    watched = kept if "copy" in program.__name__ else out
    program(graph, given, watched, torch.cuda.Stream(), torch.cuda.current_stream())
    torch.cuda.synchronize()


def output_is_read(graph: Any, given: torch.Tensor, out: torch.Tensor, side: Any, current: Any) -> None:
    graph.replay()
    with torch.cuda.stream(side):
        out.sum()


def copy_is_read(graph: Any, given: torch.Tensor, out: torch.Tensor, side: Any, current: Any) -> None:
    output_is_read(graph, given, out, side, current)


def input_is_filled(graph: Any, given: torch.Tensor, out: torch.Tensor, side: Any, current: Any) -> None:
    graph.replay()
    with torch.cuda.stream(side):
        given.zero_()


def another_stream_writes(graph: Any, given: torch.Tensor, out: torch.Tensor, side: Any, current: Any) -> None:
    with torch.cuda.stream(side):
        given.fill_(3)
    graph.replay()


def loop_is_synchronized(graph: Any, given: torch.Tensor, out: torch.Tensor, side: Any, current: Any) -> None:
    for i in range(3):
        with torch.cuda.stream(side):
            given.fill_(i)
        current.wait_stream(side)
        graph.replay()
        out.sum()
        side.wait_stream(current)


def output_is_deleted(graph: Any, given: torch.Tensor, out: torch.Tensor, side: Any, current: Any) -> None:
    graph.replay()
    del out


@pytest.mark.parametrize(
    ("program", "hazards"),
    [
        (output_is_read, ["read after write"]),
        (copy_is_read, ["read after write"]),
        (input_is_filled, ["write after read"]),
        (another_stream_writes, ["read after write"]),
        (loop_is_synchronized, []),
        (output_is_deleted, []),
    ],
)
def test_a_replay_races_with_work_that_does_not_wait(program: Program, hazards: list[str]) -> None:
    assert names_of(traced(lambda: run(program), file=__file__), Kind.HAZARD) == hazards

"""Races of backward passes, by "Stream semantics of backward passes" in PyTorch's CUDA notes, and of graph replays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from gpututor.trace.events import Kind
from tests.support.virtual_gpus import gradient, names_of, traced

Program = Callable[[Any, Any], None]


def hazards_of(program: Program) -> list[str]:
    events = traced(lambda: program(torch.cuda.Stream(), torch.cuda.current_stream()), file=__file__)
    return names_of(events, Kind.HAZARD)


def add_to_gradients(net: torch.nn.Module) -> None:
    for parameter in net.parameters():
        gradient(parameter).add_(1)


def model() -> torch.nn.Sequential:
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)).cuda()


def data() -> torch.Tensor:
    return torch.randn(4, 8, device="cuda")


def forward_on_a_side_stream(side: Any, current: Any) -> None:
    net, x = model(), data()
    side.wait_stream(current)
    with torch.cuda.stream(side):
        hidden = net[1](net[0](x))
        loss = net[2](hidden).mean()
    current.wait_stream(side)
    loss.backward()
    add_to_gradients(net)


def a_training_loop_with_its_forward_on_a_side_stream(side: Any, current: Any) -> None:
    net = model()
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        x = data()
        side.wait_stream(current)
        with torch.cuda.stream(side):
            loss = net(x).mean()
        current.wait_stream(side)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


def gradients_that_are_added_up(side: Any, current: Any) -> None:
    net, x = model(), data()
    side.wait_stream(current)
    with torch.cuda.stream(side):
        net(x).sum().backward()
    current.wait_stream(side)
    net(x).sum().backward()
    net.zero_grad()


def two_branches(side: Any, current: Any) -> None:
    x = data().requires_grad_()
    y = x * 2
    side.wait_stream(current)
    with torch.cuda.stream(side):
        left = y.exp()
    right = y.sin()
    current.wait_stream(side)
    left.record_stream(current)
    (left + right).sum().backward()
    gradient(x).sum()


def backward_within_the_block(side: Any, current: Any) -> None:
    net, x = model(), data()
    loss = net(x).mean()
    side.wait_stream(current)
    with torch.cuda.stream(side):
        loss.backward()
    current.wait_stream(side)
    add_to_gradients(net)


def both_within_the_block(side: Any, current: Any) -> None:
    net, x = model(), data()
    side.wait_stream(current)
    with torch.cuda.stream(side):
        net(x).mean().backward()
    current.wait_stream(side)
    add_to_gradients(net)


IN_ORDER = [
    forward_on_a_side_stream,
    a_training_loop_with_its_forward_on_a_side_stream,
    gradients_that_are_added_up,
    two_branches,
    backward_within_the_block,
    both_within_the_block,
]


@pytest.mark.parametrize("program", IN_ORDER, ids=[case.__name__ for case in IN_ORDER])
def test_work_ordered_by_autograd_is_no_race(program: Program) -> None:
    assert hazards_of(program) == []


def gradients_before_their_stream_was_waited_for(side: Any, current: Any) -> None:
    net, x = model(), data()
    side.wait_stream(current)
    with torch.cuda.stream(side):
        net(x).mean().backward()
    for parameter in net.parameters():
        gradient(parameter).sum()


def a_loss_before_its_stream_was_waited_for(side: Any, current: Any) -> None:
    net, x = model(), data()
    side.wait_stream(current)
    with torch.cuda.stream(side):
        loss = net(x).mean()
    loss * 2


def a_step_while_the_next_forward_runs(side: Any, current: Any) -> None:
    net, x = model(), data()
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
    net(x).mean().backward()
    side.wait_stream(current)
    with torch.cuda.stream(side):
        net(x)
    optimiser.step()


RACES = [
    (gradients_before_their_stream_was_waited_for, "read after write"),
    (a_loss_before_its_stream_was_waited_for, "read after write"),
    (a_step_while_the_next_forward_runs, "write after read"),
]


@pytest.mark.parametrize(("program", "name"), RACES, ids=[case[0].__name__ for case in RACES])
def test_missing_waits_around_backward_are_races(program: Program, name: str) -> None:
    assert name in hazards_of(program)


def test_using_only_a_tensors_shape_is_no_read() -> None:
    def program(side: Any, current: Any) -> None:
        with torch.cuda.stream(side):
            x = data()
        torch.zeros_like(x)
        x.new_ones(3)

    assert hazards_of(program) == []


GraphProgram = Callable[[Any, torch.Tensor, torch.Tensor, Any, Any], None]
"""A program with a graph, its input and output, a side stream and the current stream."""


def run(program: GraphProgram) -> None:
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
        (input_is_filled, ["write after read"]),
        (another_stream_writes, ["read after write"]),
        (loop_is_synchronized, []),
        (output_is_deleted, []),
    ],
)
def test_a_replay_races_with_work_that_does_not_wait(program: GraphProgram, hazards: list[str]) -> None:
    assert names_of(traced(lambda: run(program), file=__file__), Kind.HAZARD) == hazards

"""Data races between streams, and between copies and the host, each next to a correct version."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any

import pytest
import torch

from gpututor.devices.recorder import Recorder
from gpututor.trace.events import Kind
from tests.support.threads import started
from tests.support.virtual_gpus import names_of, traced

Program = Callable[[Any], None]
Racing = Callable[[Any, bool], None]
"""A program with a second stream, and True if the program waits where it must."""


def hazards_of(
    program: Program, gpus: int = 1, code: CodeType | None = None
) -> list[tuple[str, int | None, int | None]]:
    """Return name, line and the other access's line of each hazard, relative to the first line of the code."""
    events = traced(lambda: program(torch.cuda.Stream()), file=__file__, gpus=gpus)
    first = (code or program.__code__).co_firstlineno

    def line(index: int) -> int | None:
        number = events[index].line if index >= 0 else None
        return None if number is None else number - first

    return [(event.name, line(at), line(event.partner)) for at, event in enumerate(events) if event.kind is Kind.HAZARD]


def big() -> torch.Tensor:
    return torch.randn(64, 64, device="cuda")


def summed_on(side: Any, x: torch.Tensor, waits: bool) -> None:
    """Read `x` on another stream; wait for it there if `waits`."""
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        x.sum()
    if waits:
        torch.cuda.current_stream().wait_stream(side)


def reads_after_an_event_that_came_too_early(side: Any, waits: bool) -> None:
    x = big()
    done = torch.cuda.Event()
    done.record()
    x.relu_()
    if waits:
        done.record()
    with torch.cuda.stream(side):
        side.wait_event(done)
        x.sum()
    side.synchronize()


def both_write(side: Any, waits: bool) -> None:
    x = torch.empty(64, device="cuda")
    with torch.cuda.stream(side):
        x.fill_(1)
    if waits:
        torch.cuda.current_stream().wait_stream(side)
    x.fill_(2)
    side.synchronize()


def writes_to_a_view_of_what_another_reads(side: Any, waits: bool) -> None:
    x = big()
    summed_on(side, x, waits)
    x[0].mul_(2)
    side.synchronize()


def writes_by_out(side: Any, waits: bool) -> None:
    x = big()
    summed_on(side, x, waits)
    torch.add(1, torch.ones((64, 64), device="cuda"), out=x)
    side.synchronize()


def uses_a_copy_too_early(side: Any, waits: bool) -> None:
    host = torch.ones(64).pin_memory()
    with torch.cuda.stream(side):
        x = host.to("cuda", non_blocking=True)
    if waits:
        torch.cuda.current_stream().wait_stream(side)
    x.sum()
    torch.cuda.synchronize()


def frees_what_another_uses(side: Any, waits: bool) -> None:
    x = big()
    summed_on(side, x, False)
    if waits:
        x.record_stream(side)
    del x
    side.synchronize()


def reads_on_the_host_too_early(side: Any, waits: bool) -> None:
    host = big().to("cpu", non_blocking=True)
    if waits:
        torch.cuda.synchronize()
    host.sum()


def refills_a_buffer_too_early(side: Any, waits: bool) -> None:
    host = torch.ones(64).pin_memory()
    host.to("cuda", non_blocking=True)
    host.sum()  # to read the source of a copy is no race
    if waits:
        torch.cuda.current_stream().record_event().synchronize()
    host.zero_()


SUM = summed_on.__code__.co_firstlineno + 4
RACES: list[tuple[Racing, str, int, int]] = [
    (reads_after_an_event_that_came_too_early, "read after write", 9, 4),
    (both_write, "write after write", 6, 3),
    (writes_to_a_view_of_what_another_reads, "write after read", 3, -1),
    (writes_by_out, "write after read", 3, -1),
    (uses_a_copy_too_early, "read after write", 6, 3),
    (frees_what_another_uses, "freed in use", 5, -1),
    (reads_on_the_host_too_early, "host read during copy", 4, 1),
    (refills_a_buffer_too_early, "host write during copy", 6, 2),
]
"""Programs, their hazards, and the lines of both accesses: the other is -1 for that of `summed_on`."""


@pytest.mark.parametrize(("program", "name", "line", "partner"), RACES, ids=[case[0].__name__ for case in RACES])
def test_a_race_is_an_event_with_both_lines_and_waiting_avoids_it(
    program: Racing, name: str, line: int, partner: int
) -> None:
    code: CodeType = program.__code__
    other = partner if partner >= 0 else SUM - code.co_firstlineno
    assert (name, line, other) in hazards_of(lambda side: program(side, False), code=code)
    assert hazards_of(lambda side: program(side, True)) == []


@pytest.mark.parametrize(
    ("wait", "hazards"),
    [
        (lambda side: torch.cuda.current_stream().wait_stream(side), 0),
        (lambda side: side.synchronize(), 0),
        (lambda side: None, 1),
        (lambda side: side.wait_stream(torch.cuda.current_stream()), 1),
    ],
    ids=["the owner waits", "the host waits", "nothing waits", "the user waits"],
)
def test_freed_memory_may_be_used_again_once_its_stream_has_waited(wait: Callable[[Any], object], hazards: int) -> None:
    def program(side: Any) -> None:
        x = big()
        summed_on(side, x, False)
        del x
        wait(side)
        big()
        torch.cuda.synchronize()

    assert hazards_of(program) == [("freed in use", 3, SUM - program.__code__.co_firstlineno)] * hazards


WAITS: dict[str, Callable[[Any, torch.Tensor], Any]] = {
    "wait_stream": lambda side, x: side.wait_stream(torch.cuda.current_stream()),
    "event": lambda side, x: side.wait_event(torch.cuda.current_stream().record_event()),
    "synchronize": lambda side, x: torch.cuda.synchronize(),
    "item": lambda side, x: x.sum().item(),
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_a_read_after_a_wait_is_no_race(wait: Callable[[Any, torch.Tensor], Any]) -> None:
    def program(side: Any, waits: bool = True) -> None:
        x = big().relu()
        if waits:
            wait(side, x)
        with torch.cuda.stream(side):
            x.sum()
        side.synchronize()

    assert hazards_of(program) == []
    assert hazards_of(lambda side: program(side, False), code=program.__code__) == [("read after write", 5, 1)]


def test_copies_between_gpus_are_in_order_with_both_streams() -> None:
    def program(side: Any) -> None:
        x = big()
        y = x.to("cuda:1")
        y.relu_()
        x.copy_(y)
        x.sum()

    assert hazards_of(program, gpus=2) == []


def test_a_model_that_trains_on_default_streams_has_no_hazard() -> None:
    def program(side: Any) -> None:
        model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)).cuda()
        optimiser = torch.optim.Adam(model.parameters())
        for _ in range(2):
            optimiser.zero_grad()
            model(torch.randn(4, 8, device="cuda")).mean().backward()
            optimiser.step()

    assert hazards_of(program) == []


def test_threads_on_one_stream_are_in_order() -> None:
    def program(side: Any) -> None:
        x = big()
        started(x.mul_, 2).join()
        x.sum()

    assert hazards_of(program) == []


READ, WRITE = "host read during copy", "host write during copy"


def names_of_hazards(program: Program) -> list[str]:
    return [name for name, _, _ in hazards_of(program)]


def from_gpu() -> torch.Tensor:
    return torch.ones(4, 4, device="cuda").to("cpu", non_blocking=True)


READING: list[Callable[[torch.Tensor], Any]] = [
    lambda h: h.sum(),
    lambda h: h.tolist(),
    lambda h: h[0, 0].item(),
    lambda h: float(h[1, 1]),
    lambda h: bool(h[0, 0]),
    lambda h: repr(h),
    lambda h: str(h),
    lambda h: f"{h[0, 0]:.1f}",
    lambda h: h.clone(),
    lambda h: h[1:].add(1),
]


@pytest.mark.parametrize("call", READING)
def test_reading_values_during_a_copy_is_a_race(call: Callable[[torch.Tensor], Any]) -> None:
    def waits(side: Any) -> None:
        h = from_gpu()
        torch.cuda.current_stream().synchronize()
        call(h)

    assert names_of_hazards(lambda side: call(from_gpu())) == [READ]
    assert names_of_hazards(waits) == []


LOOKING: list[Callable[[torch.Tensor], Any]] = [
    lambda h: h[0],
    lambda h: h.t(),
    lambda h: h.detach(),
    lambda h: h.view(16),
    lambda h: h.chunk(2),
    lambda h: (h.shape, h.stride(), h.data_ptr(), h.is_pinned()),
    lambda h: h.numpy(),
]


@pytest.mark.parametrize("call", LOOKING)
def test_views_read_no_values(call: Callable[[torch.Tensor], Any]) -> None:
    assert names_of_hazards(lambda side: call(from_gpu())) == []


def test_copies_to_different_rows_do_not_race() -> None:
    def program(side: Any) -> None:
        x, o = torch.ones(8, 16, device="cuda"), torch.empty(8, 16, pin_memory=True)
        for i in range(8):
            o[i].copy_(x[i], non_blocking=True)

    assert names_of_hazards(program) == []


def test_writes_to_other_chunks_do_not_race() -> None:
    def program(side: Any) -> None:
        h = torch.ones(64).pin_memory()
        for i in range(0, 64, 16):
            h[i : i + 16].to("cuda", non_blocking=True)
            if i + 32 <= 64:
                h[i + 16 : i + 32].fill_(i)

    assert names_of_hazards(program) == []


def test_writing_to_a_chunk_during_its_copy_is_a_race() -> None:
    def program(side: Any) -> None:
        h = torch.ones(64).pin_memory()
        h[:16].to("cuda", non_blocking=True)
        h[16:32].to("cuda", non_blocking=True)
        h[8:12].zero_()

    assert names_of_hazards(program) == [WRITE]


@pytest.mark.parametrize("both", [False, True])
def test_all_streams_that_copy_a_source_must_be_synchronized(both: bool) -> None:
    def program(side: Any) -> None:
        h = torch.ones(64).pin_memory()
        h.to("cuda", non_blocking=True)
        with torch.cuda.stream(side):
            h.to("cuda", non_blocking=True)
        side.synchronize()
        if both:
            torch.cuda.current_stream().synchronize()
        h.zero_()

    assert names_of_hazards(program) == ([] if both else [WRITE])


def test_reused_host_memory_does_not_race() -> None:
    def program(side: Any) -> None:
        for _ in range(20):
            torch.ones(64).pin_memory().to("cuda", non_blocking=True)
            torch.ones(64).pin_memory().zero_()

    assert names_of_hazards(program) == []


@pytest.mark.parametrize("in_order", [False, True])
def test_two_streams_that_copy_through_a_buffer_race(in_order: bool) -> None:
    def program(side: Any) -> None:
        x, h = torch.ones(64, device="cuda"), torch.empty(64, pin_memory=True)
        h.copy_(x, non_blocking=True)
        if in_order:
            side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            h.to("cuda", non_blocking=True)

    assert names_of_hazards(program) == ([] if in_order else ["read after write"])


@pytest.mark.parametrize(
    ("shared", "waits", "hazards"),
    [(True, False, ["graphs share a pool"]), (False, False, []), (True, True, [])],
)
def test_graphs_with_one_pool_at_the_same_time_are_a_hazard(
    recorder: Recorder, shared: bool, waits: bool, hazards: list[str]
) -> None:
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
    assert names_of(recorder.complete(), Kind.HAZARD) == hazards

"""The recorder: each method writes one event, with the learner's file and line."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest

from gpututor.devices.recorder import NOWHERE, Recorder
from gpututor.trace.events import Event, Kind
from tests.support.threads import started


def only(recorder: Recorder) -> Event:
    (event,) = recorder.trace
    return event


def program(name: str, body: str) -> Callable[[Recorder], object]:
    """Return the function `run(recorder)` of a program in a file of that name."""
    scope: dict[str, Callable[[Recorder], object]] = {}
    exec(compile(f"def run(recorder):\n    {body}\n", name, "exec"), scope)
    return scope["run"]


@pytest.mark.parametrize(
    ("call", "kind", "fields"),
    [
        (
            lambda r: r.kernel("aten::mm", "cuda:1", 12, stream=2, flops=8.0, launched=1, start=2, end=3),
            Kind.KERNEL,
            {"name": "aten::mm", "device": "cuda:1", "stream": 2, "size_bytes": 12, "flops": 8.0, "end": 3},
        ),
        (
            lambda r: r.transfer("cpu", "cuda:1", 4, True, stream=3, launched=5, start=6, end=9),
            Kind.TRANSFER,
            {"device": "cuda:1", "source": "cpu", "target": "cuda:1", "asynchronous": True, "stream": 3, "start": 6},
        ),
        (
            lambda r: r.transfer("cuda:1", "cpu", 4, name="print"),
            Kind.TRANSFER,
            {"device": "cuda:1", "name": "print", "asynchronous": False, "launched": -1, "start": -1},
        ),
        (
            lambda r: r.collective("c10d::allreduce_", "cuda:0", 64, launched=5),
            Kind.COLLECTIVE,
            {"size_bytes": 64, "asynchronous": True, "launched": 5},
        ),
        (
            lambda r: r.synchronize("torch.cuda.synchronize", "cuda:0", launched=10, end=40),
            Kind.SYNCHRONISE,
            {"launched": 10, "start": 10, "end": 40},
        ),
        (
            lambda r: r.memory(Kind.ALLOCATE, "cuda:0", 512, 1024, launched=7, stream=1),
            Kind.ALLOCATE,
            {"size_bytes": 512, "allocated": 1024, "launched": 7, "start": 7, "end": 7, "stream": 1},
        ),
        (
            lambda r: r.memory(Kind.FREE, "cuda:0", 512, 0, launched=7),
            Kind.FREE,
            {"size_bytes": 512, "allocated": 0, "end": 7},
        ),
        (
            lambda r: r.memory(Kind.OUT_OF_MEMORY, "cuda:0", 1 << 40, 1024),
            Kind.OUT_OF_MEMORY,
            {"name": "out of memory", "size_bytes": 1 << 40, "allocated": 1024, "launched": -1},
        ),
        (
            lambda r: r.hazard("read after write", "cuda:0", stream=4, partner=0, launched=9),
            Kind.HAZARD,
            {"name": "read after write", "stream": 4, "partner": 0, "launched": 9, "start": 9, "end": 9},
        ),
        (
            lambda r: r.range("forward", launched=3, end=8),
            Kind.RANGE,
            {"name": "forward", "device": "cpu", "launched": 3, "start": 3, "end": 8},
        ),
    ],
)
def test_each_method_writes_an_event_and_returns_its_index(
    call: Callable[[Recorder], int], kind: Kind, fields: dict[str, object]
) -> None:
    recorder = Recorder([__file__])
    assert call(recorder) == 0
    event = only(recorder)
    assert event.kind is kind
    assert {name: getattr(event, name) for name in fields} == fields
    assert event.file == __file__
    assert event.line == call.__code__.co_firstlineno
    assert call(recorder) == 1
    assert recorder.transfer("cpu", "cuda:0", 0) == -1, "an empty copy"
    recorder.enabled = False
    assert call(recorder) == -1
    assert len(recorder.trace) == 2


def test_a_function_can_decide_which_files_are_the_learners() -> None:
    asked: list[str] = []

    def decide(name: str) -> bool:
        asked.append(name)
        return name.startswith("/home/")

    recorder = Recorder(["listed.py"], is_learners=decide)
    kernel = "recorder.kernel('aten::mm', 'cuda:0', 4)"
    for name in ("/home/mine.py", "/usr/lib/torch.py", "listed.py", "/home/mine.py"):
        program(name, kernel)(recorder)
    mine = ("/home/mine.py", 2)
    assert [(event.file, event.line) for event in recorder.trace] == [mine, ("", None), ("listed.py", 2), mine]
    assert "listed.py" not in asked


def test_the_learners_nearest_line_is_recorded() -> None:
    recorder = Recorder(["outer.py", "inner.py"])
    inner = program("inner.py", "recorder.range('a', launched=0, end=1)")
    scope: dict[str, Callable[[Recorder], object]] = {"inner": inner}
    exec(compile("def library(recorder):\n    inner(recorder)", "/usr/lib/library.py", "exec"), scope)
    exec(compile("\n\ndef outer(recorder):\n    library(recorder)", "outer.py", "exec"), scope)
    scope["outer"](recorder)
    assert (only(recorder).file, only(recorder).line) == ("inner.py", 2)


def test_an_event_can_have_a_place_from_earlier() -> None:
    recorder = Recorder([__file__])
    place = recorder.place()
    recorder.memory(Kind.FREE, "cuda:0", 512, 0, place=place)
    recorder.memory(Kind.FREE, "cuda:0", 512, 0, place=NOWHERE)
    assert [(event.file, event.line) for event in recorder.trace] == [place, ("", None)]
    assert place[0] == __file__


def test_finish_is_called_before_the_trace_is_read() -> None:
    recorder = Recorder()
    index = recorder.kernel("aten::mm", "cuda:0", 4, launched=1)
    recorder.finish = lambda: recorder.set_times(index, 5, 9)
    assert [(event.start, event.end) for event in recorder.trace] == [(-1, -1)]
    assert [(event.start, event.end) for event in recorder.complete()] == [(5, 9)]


def test_destructors_can_record_at_any_time() -> None:
    # Destructors run wherever Python likes, in any thread: a lock that one of them waits for would hang here.
    recorder = Recorder([__file__])

    class Tensor:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            recorder.memory(Kind.FREE, "cuda:0", 4, 0)

    made, threshold = 2000, gc.get_threshold()

    def work() -> None:
        for _ in range(made):
            Tensor()
            recorder.kernel("aten::mm", "cuda:0", 4)

    gc.set_threshold(1)
    try:
        for thread in [started(work) for _ in range(2)]:
            thread.join(60)
    finally:
        gc.set_threshold(*threshold)
    gc.collect()
    assert recorder.trace.kinds() == {Kind.KERNEL: 2 * made, Kind.FREE: 2 * made}

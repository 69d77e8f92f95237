"""Streams, copy engines and kernels on the virtual clock."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpututor.devices.virtual.clock.timeline import WHOLE, EventMarker, GpuTimeline, StreamTask


def test_a_stream_runs_in_order_and_after_the_launch() -> None:
    gpu = GpuTimeline()
    stream = gpu.stream(0)
    first = gpu.kernel(stream, launched=10, duration=100, fill=1)
    second = gpu.kernel(stream, launched=20, duration=5, fill=1)
    third = gpu.kernel(stream, launched=500, duration=5, fill=1)
    assert gpu.drained(stream) == 505
    assert [(task.start, task.end) for task in (first, second, third)] == [(10, 110), (110, 115), (500, 505)]


def test_small_kernels_of_two_streams_overlap_and_large_do_not() -> None:
    for fill, end in ((WHOLE // 4, 110), (WHOLE, 210), (WHOLE * 3 // 5, 210)):
        gpu = GpuTimeline()
        for number in (1, 2):
            gpu.kernel(gpu.stream(number), launched=10, duration=100, fill=fill)
        assert gpu.all_drained() == end


def test_two_full_streams_take_turns() -> None:
    gpu = GpuTimeline()
    tasks = {
        number: [gpu.kernel(gpu.stream(number), launched=number, duration=10, fill=WHOLE) for _ in range(3)]
        for number in (1, 2)
    }
    assert gpu.all_drained() == 61
    assert [event.start for event in tasks[1]] == [1, 21, 41]
    assert [event.start for event in tasks[2]] == [11, 31, 51]


def test_copies_overlap_kernels_and_serialize_in_each_direction() -> None:
    gpu = GpuTimeline()
    gpu.kernel(gpu.stream(0), 0, 100, WHOLE)
    up = gpu.copy(gpu.stream(1), 0, 40, "h2d")
    again = gpu.copy(gpu.stream(2), 0, 40, "h2d")
    down = gpu.copy(gpu.stream(3), 0, 40, "d2h")
    assert gpu.all_drained() == 100
    assert [(task.start, task.end) for task in (up, again, down)] == [(0, 40), (40, 80), (0, 40)]


def test_a_stream_waits_for_an_event_on_any_gpu() -> None:
    gpu, other = GpuTimeline(), GpuTimeline()
    gpu.peers = other.peers = [gpu, other]
    gpu.kernel(gpu.stream(1), 0, 100, 1)
    mark = gpu.mark(gpu.stream(1), 5)
    gpu.kernel(gpu.stream(1), 6, 50, 1)
    other.wait(other.stream(0), 7, mark)
    task = other.kernel(other.stream(0), 8, 10, 1)
    assert other.drained(other.stream(0)) == 110
    assert (task.start, mark.time) == (100, 100)
    assert gpu.stream(1).pending <= 1


def test_a_query_at_a_time_runs_only_work_ready_by_then() -> None:
    gpu = GpuTimeline()
    stream = gpu.stream(0)
    tasks = [gpu.kernel(stream, 0, 100, 1) for _ in range(5)]
    mark = gpu.mark(stream, 0)
    gpu.play_until(250)
    assert [event.start for event in tasks] == [0, 100, 200, -1, -1]
    assert mark.time < 0
    assert gpu.reached(mark) == 500


def test_the_host_waits_when_a_streams_queue_is_full() -> None:
    gpu = GpuTimeline()
    stream = gpu.stream(0)
    for _ in range(GpuTimeline.QUEUE):
        gpu.kernel(stream, 0, 10, 1)
    assert gpu.room_in_queue(stream, 0) == 0, "the first runs already"
    gpu.kernel(stream, 0, 10, 1)
    assert gpu.room_in_queue(stream, 0) == 20, "the second is the first of those that wait"


def test_streams_wait_for_each_others_events_and_not_for_complete_ones() -> None:
    gpu = GpuTimeline()
    mark = gpu.mark(gpu.stream(1), 7)
    assert mark.time == 7
    gpu.wait(gpu.stream(0), 3, mark)
    assert gpu.drained(gpu.stream(0)) == 7
    gpu = GpuTimeline()
    gpu.kernel(gpu.stream(1), 0, 10, 1)
    gpu.wait(gpu.stream(0), 0, gpu.mark(gpu.stream(1), 0))
    assert gpu.all_drained() == 10
    gpu = GpuTimeline()
    stray = EventMarker(0)
    gpu.wait(gpu.stream(0), 0, stray)
    with pytest.raises(AssertionError, match="wait for each other"):
        gpu.drained(gpu.stream(0))


_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["kernel", "copy", "mark", "wait", "play"]),
        st.integers(0, 3),
        st.integers(0, 50),
        st.integers(1, WHOLE),
    ),
    max_size=60,
)


@settings(max_examples=200, deadline=None)
@given(_STEPS)
def test_random_programs_keep_the_scheduling_rules(steps: list[tuple[str, int, int, int]]) -> None:
    gpu = GpuTimeline()
    now = 0
    by_stream: dict[int, list[StreamTask]] = {}
    copies: list[StreamTask] = []
    marks: list[tuple[EventMarker, StreamTask | None]] = []
    for kind, number, amount, fill in steps:
        now += amount
        stream = gpu.stream(number)
        if kind == "play":
            gpu.play_until(now)
        elif kind == "mark":
            last = by_stream.get(number, [None])[-1]
            marks.append((gpu.mark(stream, now), last))
        elif kind == "wait" and marks:
            gpu.wait(stream, now, marks[amount % len(marks)][0])
        elif kind in ("kernel", "copy"):
            task = gpu.kernel(stream, now, amount, fill) if kind == "kernel" else gpu.copy(stream, now, amount, "h2d")
            by_stream.setdefault(number, []).append(task)
            copies += [task] if task.engine else []
    gpu.all_drained()
    for tasks in by_stream.values():
        assert all(task.start >= task.launched for task in tasks)
        assert all(event.end <= other.start for event, other in pairwise(tasks))
    in_order = sorted(copies, key=lambda task: (task.start, task.end))
    assert all(event.end <= other.start for event, other in pairwise(in_order))
    kernels = [event for tasks in by_stream.values() for event in tasks if not event.engine and event.duration]
    for event in kernels:
        beside = sum(other.fill for other in kernels if other.start <= event.start < other.end)
        assert beside <= WHOLE
    for mark, last in marks:
        assert mark.time >= (last.end if last is not None else 0)


@settings(max_examples=50, deadline=None)
@given(_STEPS, st.integers(1, 40))
def test_queries_change_no_times(steps: list[tuple[str, int, int, int]], every: int) -> None:
    def run(ask: bool) -> list[tuple[int, int]]:
        gpu, now, tasks = GpuTimeline(), 0, []
        for at, (kind, number, amount, fill) in enumerate(steps):
            now += amount
            if kind == "kernel":
                tasks.append(gpu.kernel(gpu.stream(number), now, amount, fill))
            elif kind == "copy":
                tasks.append(gpu.copy(gpu.stream(number), now, amount, "d2h"))
            if ask and at % every == 0:
                # What the host launches from now on is launched later than now.
                gpu.play_until(now)
                now += 1
            elif at % every == 0:
                now += 1
        gpu.all_drained()
        return [(event.start, event.end) for event in tasks]

    assert run(True) == run(False)

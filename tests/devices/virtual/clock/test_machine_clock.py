"""Cost of waits, copies and streams on the virtual clock, and predictions of finish times."""

from __future__ import annotations

from gpututor.devices.virtual.clock.machine_clock import READING, SYNCHRONIZE, MachineClock, predict_finish
from gpututor.devices.virtual.clock.timeline import WHOLE, EventMarker, StreamTask
from tests.support.threads import started

MS = 1_000_000
COST = 5_000


def machine(gpus: int = 1) -> MachineClock:
    return MachineClock(gpus)


def launch(clock: MachineClock, gpu: int, stream: int, duration: int, cost: int = COST) -> StreamTask:
    return clock.launch(gpu, stream, duration, WHOLE, cost)


def copy(clock: MachineClock, stream: int, engine: str, *, pinned: bool, asynchronous: bool) -> StreamTask:
    duration = 10_000 + (MS if pinned else 2 * MS)
    return clock.copy(0, stream, duration, engine, COST, asynchronous=asynchronous)


def test_events_measure_device_time_and_waits_cost_their_end() -> None:
    clock = machine()
    launch(clock, 0, 0, 10 * MS)
    assert clock.host.now == 5_000
    clock.synchronize(0)
    assert clock.host.now == 10 * MS + 5_000
    clock = machine()
    start = clock.record(0, 0)
    launch(clock, 0, 0, 7 * MS)
    end = clock.record(0, 0)
    assert not clock.is_reached(0, end)
    assert not clock.is_idle(0, 0)
    clock.wait_for_mark(0, end)
    assert clock.is_reached(0, end)
    assert clock.is_idle(0, 0)
    assert 7 * MS <= end.time - start.time <= 7 * MS + 10_000


def test_a_pageable_copy_blocks_and_a_pinned_asynchronous_one_does_not() -> None:
    clock = machine()
    copy(clock, 0, "h2d", pinned=False, asynchronous=False)
    assert clock.host.now == 5_000 + 10_000 + 2 * MS
    before = clock.host.now
    copy(clock, 0, "h2d", pinned=True, asynchronous=True)
    assert clock.host.now == before + 5_000
    copy(clock, 0, "d2h", pinned=True, asynchronous=False)
    assert clock.host.now == before + 5_000 + 2 * (MS + 10_000), "a stream's copies come one after another"


def _pipeline(streams: int, *, pinned: bool) -> int:
    clock = machine()
    for step in range(4):
        stream = 1 + step % streams
        copy(clock, stream, "h2d", pinned=pinned, asynchronous=pinned)
        launch(clock, 0, stream, MS)
    clock.synchronize(0)
    return clock.host.now


def test_copies_overlap_with_kernels_on_two_streams_only_when_they_are_pinned() -> None:
    assert _pipeline(2, pinned=True) < 0.65 * _pipeline(1, pinned=True)
    assert _pipeline(2, pinned=False) > 0.7 * _pipeline(1, pinned=False)


def test_a_stream_waits_for_another_gpu_and_the_host_does_not() -> None:
    clock = machine(2)
    launch(clock, 0, 0, 5 * MS)
    done = clock.record(0, 0)
    clock.wait_for(1, 0, done)
    task = launch(clock, 1, 0, MS)
    assert clock.host.now < MS
    clock.synchronize(1)
    assert task.start >= 5 * MS
    before = clock.host.now
    clock.synchronize(1)
    assert clock.host.now == before + SYNCHRONIZE


def test_the_host_blocks_when_the_launch_queue_is_full() -> None:
    clock = machine()
    for _ in range(3000):
        launch(clock, 0, 0, MS, cost=1_000)
    assert clock.host.now > 1900 * MS


def test_a_loop_on_the_clock_ends_and_each_thread_has_its_own() -> None:
    clock = machine()
    seen = []
    while clock.host.read() < 10 * READING:
        pass

    def work() -> None:
        clock.host.spend(MS)
        seen.append(clock.host.now)

    started(work).join()
    assert seen == [MS]
    assert clock.host.now == 10 * READING


def test_predictions_come_true_and_notify_nobody() -> None:
    clock = MachineClock(1)
    tasks = [clock.launch(0, 0, 1_000, WHOLE, 100) for _ in range(5)]
    mark = clock.record(0, 0)
    moment = predict_finish(clock.gpus, clock.gpus[0], mark)
    assert mark.time == -1
    assert [(event.start, event.end) for event in tasks] == [(-1, -1)] * 5
    assert clock.gpus[0].reached(mark) == moment == 5_100
    clock = MachineClock(1)
    rows: list[int] = []
    clock.gpus[0].played = lambda row, start, end: rows.append(row)
    clock.launch(0, 0, 1_000, WHOLE, 100, row=7)
    mark = clock.record(0, 0)
    predict_finish(clock.gpus, clock.gpus[0], mark)
    assert rows == []
    clock.finish()
    assert rows == [7]


def test_work_launched_after_a_prediction_overlaps_predicted_work() -> None:
    clock = MachineClock(1)
    clock.launch(0, 0, 100_000, WHOLE // 2, 100)
    clock.launch(0, 0, 100_000, WHOLE // 2, 100)
    predict_finish(clock.gpus, clock.gpus[0], clock.record(0, 0))
    beside = clock.launch(0, 1, 1_000, WHOLE // 2, 100)
    clock.finish()
    assert beside.start == beside.launched


def test_a_stream_asks_others_when_needed_and_continues_after_their_replies() -> None:
    clock = MachineClock(1)
    asked: list[int] = []

    def meet(ready: int, task: StreamTask) -> EventMarker:
        def ask() -> int:
            asked.append(ready)
            return ready + 5_000

        return EventMarker(ready, ask=ask)

    kernel = clock.launch(0, 0, 1_000, WHOLE, 100)
    task, done = clock.collective(0, 0, 1_000_000, 300, 100, meet)
    clock.synchronize(0, 0)
    assert asked == []
    assert kernel.end == 1_100
    clock.synchronize(0)
    assert asked == [1_100]
    assert (task.start, task.end, done.time) == (6_100, 6_400, 6_400)
    assert clock.host.now >= 6_400

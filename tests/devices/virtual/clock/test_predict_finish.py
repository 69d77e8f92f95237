"""Prediction of finish times: predictions come true and change nothing."""

from __future__ import annotations

from gpututor.devices.virtual.clock.machine_clock import MachineClock, predict_finish
from gpututor.devices.virtual.clock.timeline import WHOLE, EventMarker, Task


def test_predictions_come_true() -> None:
    clock = MachineClock(1)
    tasks = [clock.launch(0, 0, 1_000, WHOLE, 100) for _ in range(5)]
    mark = clock.record(0, 0)
    moment = predict_finish(clock.gpus, clock.gpus[0], mark)
    assert mark.time == -1
    assert [(event.start, event.end) for event in tasks] == [(-1, -1)] * 5
    assert clock.gpus[0].reached(mark) == moment == 5_100


def test_listeners_are_notified_once_for_each_task() -> None:
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


def test_a_stream_goes_on_when_others_have_answered_and_they_are_asked_when_it_matters() -> None:
    clock = MachineClock(1)
    asked: list[int] = []

    def meet(ready: int, task: Task) -> EventMarker:
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

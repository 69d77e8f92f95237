"""How far a grading is, in words."""

from __future__ import annotations

from gpututor.grading.events import (
    CallStarted,
    GradingEvent,
    ScenarioStarted,
    TimingProgressed,
    event_from_json,
    event_to_json,
)
from gpututor.grading.report_text import RunProgress


def test_progress_is_told_in_words() -> None:
    now = [0.0]
    progress = RunProgress(lambda: now[0])
    progress.hear(ScenarioStarted("one GPU", "cuda:0"))
    assert (progress.is_long, progress.duration, progress.where) == (False, "0 s", "")
    progress.hear(CallStarted(2, 3))
    now[0] = 3.2
    assert (progress.is_long, progress.duration, progress.where) == (True, "3 s", "call 2 of 3")
    progress.hear(ScenarioStarted("no GPU", "cpu", 2, 2))
    assert progress.where == "machine 2 of 2"
    now[0] = 125
    progress.hear(TimingProgressed("It is quick", 12, 200))
    assert (progress.duration, progress.where) == ("2 min 05 s", "machine 2 of 2, timing pair 12 of at most 200")


def test_what_starts_travels() -> None:
    events: list[GradingEvent] = [ScenarioStarted("one GPU", "cuda:0", 2, 3), CallStarted(1, 4)]
    assert [event_from_json(event_to_json(event)) for event in events] == events

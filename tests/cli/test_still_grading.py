"""A long grading says on a terminal that it is still on."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator

from gpututor.cli.terminal import ProgressLine
from gpututor.grading.events import CallStarted, GradingCancelled, GradingEvent, ScenarioStarted
from tests.support.timeouts import PATIENCE_S


class Terminal(io.StringIO):
    """A stream that may be one."""

    def __init__(self, is_one: bool) -> None:
        super().__init__()
        self._is_one = is_one

    def isatty(self) -> bool:
        return self._is_one


def events(stream: Terminal, lines: int) -> Iterator[GradingEvent]:
    """A grading that waits for lines on the terminal."""
    yield ScenarioStarted("one GPU", "cuda:0", 2, 3)
    yield CallStarted(1, 4)
    deadline = time.monotonic() + PATIENCE_S
    while stream.getvalue().count("\n") < lines and time.monotonic() < deadline:
        time.sleep(0.005)
    yield GradingCancelled()


def test_a_long_grading_says_how_long_and_where_it_is() -> None:
    stream = Terminal(True)
    with ProgressLine(stream, moments=[0.01, 0.01]) as still:
        events_seen = list(still.follow(events(stream, 2)))
    assert len(events_seen) == 3
    lines = stream.getvalue().splitlines()
    assert lines == ["  … still grading: 0 s, machine 2 of 3, call 1 of 4. Ctrl-C stops it."] * 2


def test_a_short_grading_says_nothing() -> None:
    stream = Terminal(True)
    with ProgressLine(stream) as still:
        list(still.follow(events(stream, 0)))
    assert stream.getvalue() == ""


def test_where_there_is_no_terminal_nothing_is_said() -> None:
    stream = Terminal(False)
    with ProgressLine(stream, moments=[0.0]) as still:
        list(still.follow(events(stream, 0)))
    assert stream.getvalue() == ""

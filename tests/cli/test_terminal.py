"""The terminal: line breaks, typed lines, and the line of a long grading."""

from __future__ import annotations

import io
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence

import pytest

from gpututor.cli.grade import print_event
from gpututor.cli.terminal import LineReader, ProgressLine, fitting
from gpututor.grading.events import CallStarted, CheckFinished, GradingCancelled, GradingEvent, ScenarioStarted
from gpututor.grading.report import Status, Verdict
from tests.support.command_line import Terminal
from tests.support.shipped_course import COURSE
from tests.support.timeouts import PATIENCE_S

SENTENCE = "What pick_devices() returns holds the same value for 'memory_bytes' in each of the cases that were tried"
VERDICT = Verdict(
    "value", SENTENCE, Status.FAILED, "", expected="12 bytes " * 20, got=f"/a/{'path' * 30}", why="Why. " * 9
)


def printed(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, width: int) -> list[str]:
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(shutil, "get_terminal_size", lambda *_, **__: os.terminal_size((width, 24)))
    print_event(CheckFinished(VERDICT), "x = 1\n", COURSE.exercises[0])
    return stream.getvalue().splitlines()


@pytest.mark.parametrize("width", [60, 80, 100])
def test_output_breaks_between_words(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    lines = printed(monkeypatch, Terminal(), width)
    assert max(map(len, lines)) <= width
    sentence = lines[: next(number for number, line in enumerate(lines) if line.startswith("      expected"))]
    assert len(sentence) > 1
    assert all(line.startswith(" " * 13) and line[13] != " " for line in sentence[1:]), "it hangs below its beginning"
    assert " ".join(" ".join(sentence).split()) == f"✗ failed {SENTENCE}"


def test_long_words_and_lines_without_a_terminal_stay_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    assert printed(monkeypatch, io.StringIO(), 40)[0] == f"  ✗ failed   {SENTENCE}"
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setattr(shutil, "get_terminal_size", lambda *_, **__: os.terminal_size((40, 24)))
    path = "/a-folder/with-hyphens" * 3
    assert fitting(f"\nWatching {path}: saving it grades\n  it again.") == (
        f"\nWatching\n  {path}:\n  saving it grades\n  it again."
    )


def follow(stream: io.StringIO, lines: int, moments: Sequence[float]) -> str:
    """Follow a grading that ends when `lines` lines are printed; return them."""

    def events() -> Iterator[GradingEvent]:
        yield ScenarioStarted("one GPU", "cuda:0", 2, 3)
        yield CallStarted(1, 4)
        deadline = time.monotonic() + PATIENCE_S
        while stream.getvalue().count("\n") < lines and time.monotonic() < deadline:
            time.sleep(0.005)
        yield GradingCancelled()

    with ProgressLine(stream, moments=moments) as progress:
        assert len(list(progress.follow(events()))) == 3
    return stream.getvalue()


def test_only_a_long_grading_on_a_terminal_prints_its_duration_and_step() -> None:
    shown = follow(Terminal(), 2, moments=[0.01, 0.01])
    first, second = shown.splitlines()
    assert first == second
    assert all(words in first for words in ("0 s", "machine 2 of 3", "call 1 of 4"))
    assert follow(Terminal(), 0, moments=[60.0]) == ""
    assert follow(io.StringIO(), 0, moments=[0.0]) == ""


def test_lines_of_a_pipe_are_whole_and_its_end_does_not_quit() -> None:
    reading, writing = os.pipe()
    keyboard = LineReader(reading)
    assert keyboard.lines(0) == []
    os.write(writing, b"n\nh")
    assert keyboard.lines(1) == ["n"]
    os.write(writing, b"int\nr")
    assert keyboard.lines(1) == ["hint"]
    os.close(writing)
    assert [keyboard.lines(0) for _ in range(3)] == [[], [], []]
    os.close(reading)

"""Lines printed on a terminal break between words; printed elsewhere they stay as they are."""

from __future__ import annotations

import os
import shutil
import sys
from io import StringIO

import pytest

from gpututor.cli.grade import print_event
from gpututor.cli.terminal import fitting
from gpututor.grading.events import CheckFinished
from gpututor.grading.report import Status, Verdict

SENTENCE = "What pick_devices() returns holds the same value for 'memory_bytes' in each of the cases that were tried"
VERDICT = Verdict(
    "value", SENTENCE, Status.FAILED, "", expected="12 bytes " * 20, got=f"/a/{'path' * 30}", why="Why. " * 9
)


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def printed(monkeypatch: pytest.MonkeyPatch, stream: StringIO, width: int) -> list[str]:
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(shutil, "get_terminal_size", lambda *_, **__: os.terminal_size((width, 24)))
    print_event(CheckFinished(VERDICT), "x = 1\n")
    return stream.getvalue().splitlines()


@pytest.mark.parametrize("width", [60, 80, 100])
def test_what_grade_prints_breaks_between_words(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    lines = printed(monkeypatch, Terminal(), width)
    assert max(map(len, lines)) <= width
    sentence = lines[: next(number for number, line in enumerate(lines) if line.startswith("      expected"))]
    assert len(sentence) > 1
    assert all(line.startswith(" " * 13) and line[13] != " " for line in sentence[1:]), "it hangs below its beginning"
    assert " ".join(" ".join(sentence).split()) == f"✗ failed {SENTENCE}"


def test_what_is_no_terminal_gets_whole_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    assert printed(monkeypatch, StringIO(), 40)[0] == f"  ✗ failed   {SENTENCE}"


def test_a_word_longer_than_the_line_stays_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setattr(shutil, "get_terminal_size", lambda *_, **__: os.terminal_size((40, 24)))
    path = "/a-folder/with-hyphens" * 3
    assert fitting(f"\nWatching {path}: saving it grades\n  it again.") == (
        f"\nWatching\n  {path}:\n  saving it grades\n  it again."
    )

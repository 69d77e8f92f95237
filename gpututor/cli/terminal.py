"""The terminal: its width, lines that are typed, and a progress line."""

from __future__ import annotations

import os
import select
import shutil
import sys
import textwrap
import threading
import time
from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from typing import Self, TextIO

from gpututor.grading.events import GradingEvent
from gpututor.grading.report_text import RunProgress

_LEAST = 20
"""Columns below which the terminal may break words."""


def columns(most: int | None = None) -> int | None:
    """Return the number of columns to use, at most `most`; `most` itself if stdout is not a terminal."""
    if not sys.stdout.isatty():
        return most
    width = max(_LEAST, shutil.get_terminal_size().columns)
    return width if most is None else min(width, most)


def fitting(text: str, hang: int = 2) -> str:
    """Return `text` wrapped to the terminal's width, with continuation lines indented. Long words stay whole."""
    width = columns()
    if width is None:
        return text
    wrapper = textwrap.TextWrapper(width, subsequent_indent=" " * hang, break_long_words=False, break_on_hyphens=False)
    lines = text.split("\n")
    return "\n".join(line if len(line) <= width else wrapper.fill(line) for line in lines)


class LineReader:
    """Lines of the standard input, read with a timeout."""

    def __init__(self, descriptor: int | None = None) -> None:
        try:
            self._descriptor = sys.stdin.fileno() if descriptor is None else descriptor
        except (AttributeError, OSError, ValueError):  # closed, or replaced by something that is not a file
            self._descriptor = -1
        self._partial = b""
        self._is_terminal = self._descriptor >= 0 and os.isatty(self._descriptor)

    def lines(self, timeout_s: float) -> list[str] | None:
        """Return the lines that arrive in time; None after Ctrl-D at a terminal, not at the end of a pipe or file."""
        if self._descriptor < 0:
            time.sleep(timeout_s)
            return []
        if not select.select([self._descriptor], [], [], timeout_s)[0]:
            return []
        try:
            received = os.read(self._descriptor, 4096)
        except OSError:  # the terminal was closed
            received = b""
        if not received:
            self._descriptor = -1
            return None if self._is_terminal else []
        *whole, self._partial = (self._partial + received).split(b"\n")
        return [line.decode("utf-8", "replace") for line in whole]


_MOMENTS = (3.0, 7.0, 20.0, 30.0)
"""Seconds before each line; later lines come once a minute."""


class ProgressLine:
    """Lines on stderr, if it is a terminal, that a grading is still running."""

    def __init__(self, stream: TextIO | None = None, moments: Sequence[float] = _MOMENTS) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._moments = moments
        self._progress = RunProgress()
        self._finished = threading.Event()
        self._thread = threading.Thread(target=self._print, daemon=True)

    def __enter__(self) -> Self:
        if self._stream.isatty():
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._finished.set()
        if self._thread.is_alive():
            self._thread.join()

    def follow(self, events: Iterator[GradingEvent]) -> Iterator[GradingEvent]:
        """Yield the same events; note the progress."""
        for event in events:
            self._progress.note(event)
            yield event

    def _print(self) -> None:
        for seconds in chain(self._moments, repeat(60.0)):
            if self._finished.wait(seconds):
                return
            where = f", {self._progress.where}" if self._progress.where else ""
            words = f"  … still grading: {self._progress.duration}{where}. Ctrl-C stops it."
            print(words, file=self._stream, flush=True)

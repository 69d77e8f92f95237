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
from gpututor.grading.report_text import LONG_S, RunProgress

_LEAST = 20
"""On fewer columns the terminal may break words."""


def columns(most: int | None = None) -> int | None:
    """How many columns to use, and not more than `most`; `most` itself where stdout is no terminal."""
    if not sys.stdout.isatty():
        return most
    width = max(_LEAST, shutil.get_terminal_size().columns)
    return width if most is None else min(width, most)


def fitting(text: str, hang: int = 2) -> str:
    """`text` with each line broken between words to the terminal's width; what follows a break is indented by `hang`.

    Words longer than a line, such as paths, stay whole.
    """
    width = columns()
    if width is None:
        return text
    return "\n".join(_broken(line, width, hang) for line in text.split("\n"))


def _broken(line: str, width: int, hang: int) -> str:
    if len(line) <= width:
        return line
    return "\n".join(
        textwrap.wrap(line, width, subsequent_indent=" " * hang, break_long_words=False, break_on_hyphens=False)
    )


class LineReader:
    """The standard input, read without ever waiting longer than told."""

    def __init__(self, descriptor: int | None = None) -> None:
        """`descriptor` None: that of the standard input, where there is one."""
        try:
            self._descriptor = sys.stdin.fileno() if descriptor is None else descriptor
        except (AttributeError, OSError, ValueError):  # closed, or replaced by what is no file
            self._descriptor = -1
        self._begun = b""
        self._is_terminal = self._descriptor >= 0 and os.isatty(self._descriptor)

    def lines(self, timeout_s: float) -> list[str] | None:
        """The lines that came, at the latest after the timeout; None when the person at a terminal said Ctrl-D.

        The end of a pipe or a file says nothing: nobody is there to type, and so nobody wants to leave.
        """
        if self._descriptor < 0:
            time.sleep(timeout_s)
            return []
        if not select.select([self._descriptor], [], [], timeout_s)[0]:
            return []
        try:
            came = os.read(self._descriptor, 4096)
        except OSError:  # the terminal was closed
            came = b""
        if not came:
            self._descriptor = -1
            return None if self._is_terminal else []
        *whole, self._begun = (self._begun + came).split(b"\n")
        return [line.decode("utf-8", "replace") for line in whole]


_MOMENTS = (LONG_S, 7.0, 20.0, 30.0)
"""Seconds from one line to the next; a minute after that."""


class ProgressLine:
    """Says on stderr, where that is a terminal, that the grading is still on; told what happens meanwhile."""

    def __init__(self, stream: TextIO | None = None, moments: Sequence[float] = _MOMENTS) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._moments = moments
        self._progress = RunProgress()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tell, daemon=True)

    def __enter__(self) -> Self:
        if self._stream.isatty():
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def heard(self, events: Iterator[GradingEvent]) -> Iterator[GradingEvent]:
        """The same events."""
        for event in events:
            self._progress.hear(event)
            yield event

    def _tell(self) -> None:
        for seconds in chain(self._moments, repeat(60.0)):
            if self._over.wait(seconds):
                return
            where = f", {self._progress.where}" if self._progress.where else ""
            print(
                f"  … still grading: {self._progress.duration}{where}. Ctrl-C stops it.", file=self._stream, flush=True
            )

"""A line on a terminal, now and then, while a grading takes long."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from typing import Self, TextIO

from gpututor.grading.events import GradingEvent
from gpututor.grading.run_progress import LONG_S, RunProgress

_MOMENTS = (LONG_S, 7.0, 20.0, 30.0)
"""Seconds from one line to the next; a minute after that."""


class StillGrading:
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

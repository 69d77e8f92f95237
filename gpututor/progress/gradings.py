"""Gradings in background threads, for the apps and `gpututor watch`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpututor.errors import GradingError, TutorError
from gpututor.grading.events import GradeRequest, GradingCancelled, GradingEvent, GradingFinished
from gpututor.grading.report import Report
from gpututor.progress.attempt_writer import FinishedRun

if TYPE_CHECKING:
    from gpututor.progress.recordings import Recordings


class Gradings:
    """Gradings in daemon threads, one at a time. Each has a number; a newer one ends the one before."""

    def __init__(
        self,
        grade: Callable[[GradeRequest], Iterator[GradingEvent]],
        cancel: Callable[[], object],
        post: Callable[[int, GradingEvent | TutorError], object],
        recordings: Callable[[], Recordings] | None = None,
        log: Callable[[BaseException], object] = lambda error: None,
    ) -> None:
        """`grade` and `cancel` are those of a `GradingService`. `post` is called in a thread with each event.

        The last event is `GradingFinished`, `GradingCancelled` or an error. `recordings` returns where each grading is
        recorded; without it, that is as the request says. `log` receives unexpected errors.
        """
        self._grade, self._cancel = grade, cancel
        self._post, self._recordings, self._log = post, recordings, log
        self.newest = 0
        self._stopped = 0
        """Number of the newest grading that was stopped."""
        self._parts: dict[int, Path] = {}
        """Pending recordings."""
        self._turn = threading.Lock()

    def start(self, request: GradeRequest) -> None:
        self.newest += 1
        if self._recordings is not None and (part := self._recordings().create_pending()) is not None:
            self._parts[self.newest] = part
            request = replace(request, recording_folder=str(part))
        threading.Thread(target=self._follow, args=(self.newest, request), daemon=True).start()

    def stop(self) -> None:
        """Stop the newest grading. The client only writes a line to the judge, so this does not wait."""
        self._stopped = self.newest
        self._cancel()

    def is_over(self, number: int) -> bool:
        """Return True if a grading was stopped, or a newer one has begun."""
        return number < self.newest or number <= self._stopped

    def finished(self, number: int, report: Report, source: str) -> FinishedRun:
        """Return a graded submission with its recording, to be saved."""
        return FinishedRun(report, source, self._parts.pop(number, None))

    def discard(self, number: int) -> None:
        """Remove the recording of a grading that is not saved."""
        if self._recordings is not None:
            self._recordings().discard(self._parts.pop(number, None))

    def _follow(self, number: int, request: GradeRequest) -> None:
        self._cancel()  # an earlier grading: only the newer text counts
        with self._turn:
            end = self._run(number, request)
        if not isinstance(end, GradingFinished):
            self.discard(number)
        self._post(number, end)

    def _run(self, number: int, request: GradeRequest) -> GradingEvent | TutorError:
        """Post the events, and return the last one."""
        if self.is_over(number):
            return GradingCancelled()
        try:
            for event in self._grade(request):
                if isinstance(event, GradingFinished | GradingCancelled):
                    return event
                self._post(number, event)
                if self.is_over(number):
                    self._cancel()  # it was stopped just before the client began, when a cancel finds nothing to end
            return GradingError("The grader ended without a report.", "Run again.")
        except TutorError as known:
            return known
        except Exception as unknown:
            self._log(unknown)
            title = f"The grader stopped in an unexpected way: {unknown!r}"
            return GradingError(title, "Run again. Your file is not at fault.")

"""Keeps graded attempts, one after the other, while its user does something else."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gpututor.errors import ProgressError, TutorError
from gpututor.grading.report import Report
from gpututor.progress.recordings import Recordings, keep_attempt, prune_recordings
from gpututor.progress.store import ProgressStore


@dataclass(frozen=True)
class Graded:
    """What is to be kept of one run."""

    report: Report
    source: str
    """The text that was graded."""
    part: Path | None
    """Where the judge recorded what the devices did."""


class Keeper:
    """Writes attempts in the order in which they come, in a thread: another process may hold the file for ten seconds.

    It has a connection of its own, so that nobody who asks how far the learner is waits for it. Python ends only when
    the thread has: what was given to `keep` is not lost by leaving.
    """

    def __init__(self, progress: Path, recordings: Recordings) -> None:
        self._progress = progress
        self._recordings = recordings
        self._waiting: deque[tuple[Graded, Callable[[int | TutorError], object]]] = deque()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def keep(self, graded: Graded, then: Callable[[int | TutorError], object]) -> None:
        """Returns at once. `then` is called in the thread, with the attempt's id, or with why it cannot be kept."""
        with self._lock:
            self._waiting.append((graded, then))
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, daemon=False)
                self._thread.start()

    def wait(self, at_most_s: float) -> None:
        """Until all is kept, or for so long."""
        thread = self._thread
        if thread is not None:
            thread.join(at_most_s)

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                graded, then = self._waiting.popleft()
            then(self._kept(graded))
            self._prune(graded.report.exercise)

    def _kept(self, graded: Graded) -> int | TutorError:
        try:
            with contextlib.closing(ProgressStore(self._progress)) as progress:
                return keep_attempt(progress, self._recordings, graded.report, graded.source, graded.part)
        except TutorError as error:
            self._recordings.discard(graded.part)
            return error
        except Exception as unknown:  # the next one is to be kept all the same
            return ProgressError(f"The attempt could not be kept: {unknown!r}", "Run again.")

    def _prune(self, key: str) -> None:
        # Where it cannot be done now, it is tried again after the next run.
        with contextlib.suppress(TutorError), contextlib.closing(ProgressStore(self._progress)) as progress:
            prune_recordings(progress, self._recordings, key)

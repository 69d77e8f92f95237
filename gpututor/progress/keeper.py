"""Keeps graded attempts, one after the other, while its user does something else."""

from __future__ import annotations

import atexit
import contextlib
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gpututor.errors import ProgressError, TutorError
from gpututor.grading.report import Report
from gpututor.progress import database
from gpututor.progress.recordings import Recordings, keep_attempt, prune_recordings
from gpututor.progress.store import ProgressStore
from gpututor.progress.unkept import put_aside

_SILENT_S = 0.3
"""How long the end of the process may take without a word."""


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
    all that was given to `keep` is in the file or, where that cannot be, beside it for the next start to take in.
    """

    def __init__(
        self,
        progress: Path,
        recordings: Recordings,
        *,
        log: Callable[[BaseException], object] = traceback.print_exception,
    ) -> None:
        """`log`: is given what should not have happened."""
        self._progress = progress
        self._recordings = recordings
        self._log = log
        self._waiting: deque[tuple[Graded, Callable[[int | TutorError], object]]] = deque()
        """The first one is the one that is being kept."""
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._until: float | None = None
        """When nobody waits for the file any more, once the process is about to end."""
        self._aside = self._lost = 0
        """How many are beside the file, and nowhere, of those that were tried as the process was about to end."""

    def keep(self, graded: Graded, then: Callable[[int | TutorError], object]) -> None:
        """Returns at once. `then` is called in the thread, with the attempt's id, or with why it cannot be kept."""
        with self._lock:
            self._waiting.append((graded, then))
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, daemon=True)
                self._thread.start()
                atexit.register(self._finish)

    def wait(self, at_most_s: float) -> None:
        """Until all is kept, or for so long."""
        thread = self._thread
        if thread is not None:
            thread.join(at_most_s)

    def _finish(self) -> None:
        """The process ends: wait for what is not kept yet, and say so where that takes a moment."""
        with self._lock:
            self._until = time.monotonic() + database.BUSY_TIMEOUT_S
            thread, number = self._thread, len(self._waiting)
        if thread is None:
            return
        thread.join(_SILENT_S)
        if thread.is_alive():
            _say(f"{_attempts(number)} being kept: another program holds {self._progress}")
        thread.join()
        if self._aside:
            _say(f"{_attempts(self._aside)} kept beside your progress, and put into it at the next start.")
        if self._lost:
            _say(f"{_attempts(self._lost)} lost: neither {self._progress} nor its folder could be written.")

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    atexit.unregister(self._finish)
                    return
                graded, then = self._waiting[0]
            kept = self._kept(graded)
            try:
                then(kept)
                if isinstance(kept, int):
                    self._prune(graded.report.exercise)
            except Exception as error:  # the next one is to be kept all the same
                self._log(error)
            with self._lock:
                self._waiting.popleft()

    def _store(self) -> ProgressStore:
        until = self._until
        return ProgressStore(self._progress, busy_s=None if until is None else max(0.0, until - time.monotonic()))

    def _kept(self, graded: Graded) -> int | TutorError:
        try:
            with contextlib.closing(self._store()) as progress:
                return keep_attempt(progress, self._recordings, graded.report, graded.source, graded.part)
        except TutorError as error:
            return self._put_aside(graded, error)
        except Exception as unknown:
            self._log(unknown)
            fault = ProgressError(f"The attempt could not be kept: {unknown!r}", "Look at the log.")
            return self._put_aside(graded, fault)

    def _put_aside(self, graded: Graded, error: TutorError) -> TutorError:
        is_last = self._until is not None
        try:
            folder = put_aside(self._progress, graded.report, graded.source, graded.part)
        except Exception as unknown:
            self._log(unknown)
            self._recordings.discard(graded.part)
            self._lost += is_last
            return error
        self._aside += is_last
        return ProgressError(
            error.title, f"The attempt is in {folder}, and is put into your progress at the next start. {error.advice}"
        )

    def _prune(self, key: str) -> None:
        # Where it cannot be done now, it is tried again after the next run.
        with contextlib.suppress(TutorError), contextlib.closing(self._store()) as progress:
            prune_recordings(progress, self._recordings, key)


def _attempts(number: int) -> str:
    return "1 attempt is" if number == 1 else f"{number} attempts are"


def _say(words: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # nobody may be there to read it
        print(f"gpututor: {words}", file=sys.stderr, flush=True)

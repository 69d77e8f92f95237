"""Keeps graded attempts and notes, one after the other, while its user does something else."""

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
from gpututor.progress.notes import Note
from gpututor.progress.recordings import Recordings, keep_attempt, prune_recordings
from gpututor.progress.store import ProgressStore
from gpututor.progress.unkept import put_attempt_aside, put_note_aside, take_into

_SILENT_S = 0.3
"""How long the end of the process may take without a word."""
_NOTE_S = 1.0
"""How long a note waits for another process that is writing: beside the file it is kept as well."""


@dataclass(frozen=True)
class Graded:
    """What is to be kept of one run."""

    report: Report
    source: str
    """The text that was graded."""
    part: Path | None
    """Where the judge recorded what the devices did."""


@dataclass(frozen=True)
class _Waiting:
    what: Graded | Note
    then: Callable[[int | TutorError], object]
    until: float
    """The moment of the monotonic clock from which on it waits for no other process."""


class Keeper:
    """Writes attempts and notes in the order in which they come, in a thread: others may hold the file for seconds.

    It has a connection of its own, so that nobody who asks how far the learner is waits for it. Python ends only when
    all that was given to it is in the file or, where that cannot be, beside it. What is beside it is put into the file
    before anything that comes later, or by the next start.
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
        self._waiting: deque[_Waiting] = deque()
        """The first one is the one that is being kept."""
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._has_put_aside = False
        """Whether something that came before may be beside the file."""
        self._is_ending = False
        self._aside = self._lost = 0
        """How many attempts are beside the file, and nowhere, of those that were tried as the process was ending."""

    def keep(self, graded: Graded, then: Callable[[int | TutorError], object]) -> None:
        """Returns at once. `then` is called in the thread, with the attempt's id, or with why it cannot be kept."""
        self._add(_Waiting(graded, then, time.monotonic() + database.BUSY_TIMEOUT_S))

    def note(self, note: Note, otherwise: Callable[[TutorError], object]) -> None:
        """Returns at once. `otherwise` is called in the thread, where it can be kept neither in the file nor beside it.

        It takes the place of a note of the same name that still waits.
        """

        def then(kept: int | TutorError) -> None:
            if isinstance(kept, TutorError):
                otherwise(kept)

        with self._lock:
            for older in list(self._waiting)[1:]:
                if isinstance(older.what, Note) and older.what.name == note.name:
                    self._waiting.remove(older)
        self._add(_Waiting(note, then, time.monotonic() + _NOTE_S))

    def wait(self, at_most_s: float) -> None:
        """Until all is kept, or for so long."""
        thread = self._thread
        if thread is not None:
            thread.join(at_most_s)

    def _add(self, waiting: _Waiting) -> None:
        with self._lock:
            self._waiting.append(waiting)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, daemon=True)
                self._thread.start()
                atexit.register(self._finish)

    def _finish(self) -> None:
        """The process ends: wait for what is not kept yet, and say so where that takes a moment."""
        with self._lock:
            self._is_ending = True
            thread, number = self._thread, sum(isinstance(one.what, Graded) for one in self._waiting)
        if thread is None:
            return
        thread.join(_SILENT_S)
        if thread.is_alive() and number:
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
                waiting = self._waiting[0]
            kept = self._kept(waiting)
            try:
                waiting.then(kept)
                if isinstance(waiting.what, Graded) and isinstance(kept, int):
                    self._prune(waiting.what.report.exercise)
            except Exception as error:  # the next one is to be kept all the same
                self._log(error)
            with self._lock:
                self._waiting.popleft()

    def _kept(self, waiting: _Waiting) -> int | TutorError:
        what = waiting.what
        try:
            with contextlib.closing(ProgressStore(self._progress, patience=database.until(waiting.until))) as progress:
                if self._has_put_aside:
                    take_into(progress)
                    self._has_put_aside = False
                if isinstance(what, Graded):
                    return keep_attempt(progress, self._recordings, what.report, what.source, what.part)
                what.write(progress)
                return 0
        except TutorError as error:
            return self._put_aside(what, error)
        except Exception as unknown:
            self._log(unknown)
            return self._put_aside(what, ProgressError(f"Progress could not be kept: {unknown!r}", "Look at the log."))

    def _put_aside(self, what: Graded | Note, error: TutorError) -> int | TutorError:
        """Keep it beside the file; what is to be said of that."""
        try:
            if isinstance(what, Note):
                put_note_aside(self._progress, what)
            else:
                folder = put_attempt_aside(self._progress, what.report, what.source, what.part)
        except Exception as unknown:
            self._log(unknown)
            if isinstance(what, Graded):
                self._recordings.discard(what.part)
                self._lost += self._is_ending
            return error
        self._has_put_aside = True
        if isinstance(what, Note):
            return 0
        self._aside += self._is_ending
        return ProgressError(
            error.title, f"The attempt is in {folder}, and is put into your progress once that can be. {error.advice}"
        )

    def _prune(self, key: str) -> None:
        # Where it cannot be done now, it is tried again after the next run.
        with (
            contextlib.suppress(TutorError),
            contextlib.closing(ProgressStore(self._progress, patience=database.briefly)) as progress,
        ):
            prune_recordings(progress, self._recordings, key)


def _attempts(number: int) -> str:
    return "1 attempt is" if number == 1 else f"{number} attempts are"


def _say(words: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # nobody may be there to read it
        print(f"gpututor: {words}", file=sys.stderr, flush=True)

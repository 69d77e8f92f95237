"""Saving attempts and events: first to the spool, which survives a kill, then, in a thread, to the database.

The spool is a folder next to the progress file. An entry appears there in one step: a file, or the folder of an
attempt's recording with that file in it. Names begin with the time, so entries go to the database in their order. An
attempt's row carries the name of its entry: draining an entry again adds nothing.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import json
import os
import shutil
import sqlite3
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpututor.errors import ProgressError, TutorError
from gpututor.files import sweep_parts, sync_folder, written_beside
from gpututor.processes import is_alive
from gpututor.progress import database
from gpututor.progress.store import ProgressStore

if TYPE_CHECKING:
    from gpututor.grading.report import Report
    from gpututor.progress.recordings import Recordings, StoredAttempt

ENTRY = "attempt.json"
"""Name of an entry's file within the folder of its recording."""
_END_S = 0.3
"""Time that a process which ends waits for its attempts, all of which are in the spool."""
_numbers = itertools.count()


@dataclass(frozen=True)
class FinishedRun:
    """A graded submission that is to be saved."""

    report: Report
    source: str
    """The text that was graded."""
    recording: Path | None = None
    """The pending folder into which the judge recorded the devices."""


class EventKind(StrEnum):
    """Kinds of events between attempts."""

    CURRENT_EXERCISE = "current exercise"
    PLACE = "place"
    HINTS = "hints"
    SOLUTION_OPENED = "solution opened"
    BEGUN_AGAIN = "begun again"


@dataclass(frozen=True)
class ProgressEvent:
    """A step of the learner between attempts. Storing it twice changes nothing."""

    kind: EventKind
    value: str
    """An exercise's key, or a place."""
    number: int = 0
    """The number of open hints."""

    def store(self, progress: ProgressStore) -> None:
        """Write it to the database. Raises `ProgressError`."""
        match self.kind:
            case EventKind.CURRENT_EXERCISE:
                progress.set_current_exercise(self.value)
            case EventKind.PLACE:
                progress.keep_place(self.value)
            case EventKind.HINTS:
                progress.open_hints(self.value, self.number)
            case EventKind.SOLUTION_OPENED:
                progress.mark_solution_opened(self.value)
            case EventKind.BEGUN_AGAIN:
                progress.mark_begun_again(self.value)

    def to_json(self) -> dict[str, Any]:
        return {"kind": str(self.kind), "value": self.value, "number": self.number}

    @classmethod
    def from_json(cls, content: Any) -> ProgressEvent:
        """Raise `ValueError`, `KeyError` or `TypeError` for an event of a newer gpututor."""
        return cls(EventKind(content["kind"]), str(content["value"]), int(content["number"]))


class NotYetStored(ProgressError):
    """An attempt is safe in the spool, but the database did not take it."""


def spool_folder(progress: Path) -> Path:
    """Return the folder of the entries that wait for the progress file."""
    return progress.with_name("spool")


def new_entry(progress: Path) -> Path:
    """Return the path of a new entry, which comes after all others."""
    return spool_folder(progress) / f"{time.time_ns()}-{os.getpid()}-{next(_numbers)}"


def spool_attempt(entry: Path, run: FinishedRun) -> None:
    """Save a run, with its recording, as an entry that survives a power cut. Raises `OSError`."""
    content = json.dumps({"report": run.report.to_json(), "source": run.source.encode("utf-8", "replace").decode()})
    if run.recording is not None:
        # Without it where it is gone, or on another disk.
        with contextlib.suppress(OSError), written_beside(run.recording / ENTRY, content) as part:
            entry.parent.mkdir(parents=True, exist_ok=True)
            part.replace(run.recording / ENTRY)
            run.recording.rename(entry)
    if not entry.is_dir():
        with written_beside(entry, content) as part:
            part.replace(entry)
    with contextlib.suppress(OSError):
        for folder in (entry, entry.parent):
            if folder.is_dir():
                sync_folder(folder)


def spool_event(entry: Path, event: ProgressEvent) -> None:
    """Save an event as an entry that survives a kill. Raises `OSError`."""
    with written_beside(entry, json.dumps({"event": event.to_json()}), sync=False) as part:
        part.replace(entry)


def drain_spool(progress: Path) -> int:
    """Move what is in the spool to the progress file; return the number of entries. What fails stays there."""
    if not _entries(progress):
        return 0
    with (
        contextlib.suppress(TutorError),
        contextlib.closing(ProgressStore(progress, patience=database.briefly)) as store,
        _draining(store),
    ):
        return len(_drain(store))
    return 0


def _entries(progress: Path) -> list[str]:
    """Return the names of the entries, the oldest first."""
    try:
        return sorted(name for name in os.listdir(spool_folder(progress)) if not name.startswith("."))
    except OSError:
        return []


@contextlib.contextmanager
def _draining(store: ProgressStore) -> Iterator[None]:
    """Keep other processes from draining the same spool meanwhile. Raises `ProgressError`."""
    try:
        with database.alone(spool_folder(store.path), store.patience()):
            yield
    except (OSError, sqlite3.OperationalError) as error:
        raise ProgressError(f"The spool of {store.path} cannot be read: {error}.", "Close other gpututors.") from error


def _drain(store: ProgressStore) -> dict[str, StoredAttempt | None]:
    """Store all entries; return what is stored by the entry's name, None for an event. Raises `ProgressError`."""
    folder = spool_folder(store.path)
    sweep_parts(folder, is_alive)
    stored = {}
    for name in _entries(store.path):
        # An entry of a newer gpututor stays for that.
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            stored[name] = _store_entry(store, folder / name)
    return stored


def _store_entry(store: ProgressStore, entry: Path) -> StoredAttempt | None:
    from gpututor.progress.recordings import Recordings, store_attempt
    from gpututor.progress.store import read_record

    recording = entry if entry.is_dir() else None
    content = json.loads((entry / ENTRY if recording else entry).read_text(encoding="utf-8"))
    attempt = None
    if "event" in content:
        ProgressEvent.from_json(content["event"]).store(store)
    else:
        report, source = read_record(json.dumps(content["report"])), str(content["source"])
        recordings = Recordings.beside(store)
        attempt = store_attempt(store, recordings, report, source, recording, spooled_as=entry.name)
        with contextlib.suppress(OSError):
            (recordings.folder / str(attempt.id) / ENTRY).unlink()
    if recording is None:
        entry.unlink(missing_ok=True)
    else:
        shutil.rmtree(recording, ignore_errors=True)
    return attempt


@dataclass(eq=False)
class _Waiting:
    what: FinishedRun | ProgressEvent
    entry: Path
    then: Callable[[StoredAttempt | TutorError], object]
    is_spooled: bool = False
    """False while the disk refuses it: then it is only in memory."""
    has_failed: bool = False

    def spool(self) -> None:
        """Save it in its place in the spool, where that is possible."""
        with contextlib.suppress(OSError):
            if isinstance(self.what, FinishedRun):
                spool_attempt(self.entry, self.what)
            else:
                spool_event(self.entry, self.what)
            self.is_spooled = True


class AttemptWriter:
    """Writes attempts and events in their order, without keeping the caller waiting for the database.

    The spool has them when `save` returns. Where it cannot be written they stay in memory, and the process ends only
    when the database has them or cannot take them.
    """

    def __init__(self, progress: Path, *, log: Callable[[BaseException], object] = traceback.print_exception) -> None:
        """`log` receives unexpected errors."""
        self._progress = progress
        self._log = log
        self._waiting: list[_Waiting] = []
        """Attempts that are not in the database, and the events that are not even in the spool."""
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._has_new = False
        self._notice: str | None = None

    @cached_property
    def recordings(self) -> Recordings:
        """Recordings of the stored attempts."""
        from gpututor.progress.recordings import Recordings

        return Recordings(self._progress.with_name("recordings"))

    def save(self, run: FinishedRun, then: Callable[[StoredAttempt | TutorError], object]) -> None:
        """Save an attempt to the spool, and let the thread store it.

        The thread calls `then` with the stored attempt. At the first failure it calls `then` with the error, which is
        `NotYetStored` while the attempt is in the spool, and again when a later try succeeds.
        """
        self._add(_Waiting(run, new_entry(self._progress), then))

    def record(self, event: ProgressEvent, failed: Callable[[TutorError], object]) -> None:
        """Save an event. The thread calls `failed` where neither spool nor database take it."""
        entry = new_entry(self._progress)
        self._add(_Waiting(event, entry, lambda error: isinstance(error, TutorError) and failed(error)))

    def wait(self, at_most_s: float | None = None) -> None:
        """Wait until all is stored, or has been tried."""
        thread = self._thread
        if thread is not None:
            thread.join(at_most_s)

    def wait_for_attempts(self, at_most_s: float) -> None:
        """Wait until each attempt is stored, or has been tried."""
        if any(isinstance(each.what, FinishedRun) and not each.has_failed for each in list(self._waiting)):
            self.wait(at_most_s)

    def take_notice(self) -> str | None:
        """Return, once, what the learner should know about the progress file, such as that it was damaged."""
        notice, self._notice = self._notice, None
        return notice

    def _add(self, waiting: _Waiting) -> None:
        waiting.spool()
        with self._lock:
            self._has_new = True
            if isinstance(waiting.what, FinishedRun) or not waiting.is_spooled:
                self._waiting.append(waiting)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, daemon=True)
                self._thread.start()
                atexit.unregister(self._finish)
                atexit.register(self._finish)

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._has_new:
                    self._thread = None
                    if not self._waiting:
                        atexit.unregister(self._finish)
                    return
                self._has_new = False
            self._try()

    def _try(self) -> None:
        waiting = list(self._waiting)
        try:
            self._store(waiting)
        except TutorError as error:
            self._fail(waiting, error)
        except Exception as unknown:
            self._log(unknown)
            self._fail(waiting, ProgressError(f"Progress could not be saved: {unknown!r}", "Look at the log."))

    def _store(self, all_waiting: list[_Waiting]) -> None:
        from gpututor.progress.recordings import prune_recordings, store_attempt

        for waiting in all_waiting:
            if not waiting.is_spooled:
                waiting.spool()
        patience = database.until(time.monotonic() + database.BUSY_TIMEOUT_S)
        with contextlib.closing(ProgressStore(self._progress, patience=patience)) as store:
            with _draining(store):
                drained = _drain(store)
                for waiting in all_waiting:
                    what, name = waiting.what, waiting.entry.name
                    if isinstance(what, ProgressEvent):
                        if not waiting.is_spooled:
                            what.store(store)
                        self._waiting.remove(waiting)
                        continue
                    # Not drained: it is only in memory, or another process drained it.
                    part = None if waiting.is_spooled else what.recording
                    attempt = drained.get(name) or store_attempt(
                        store, self.recordings, what.report, what.source, part, spooled_as=name
                    )
                    self._waiting.remove(waiting)
                    self._tell(waiting, attempt)
            self._notice = store.notice or self._notice
            store.patience = database.briefly
            for key in {each.what.report.exercise for each in all_waiting if isinstance(each.what, FinishedRun)}:
                with contextlib.suppress(TutorError):  # the next run tries again
                    prune_recordings(store, self.recordings, key)

    def _fail(self, all_waiting: list[_Waiting], error: TutorError) -> None:
        for waiting in all_waiting:
            if waiting.has_failed or waiting not in self._waiting:
                continue
            waiting.has_failed = True
            if waiting.is_spooled:
                advice = f"It is safe in {waiting.entry}; the next start adds it. {error.advice}"
                error = NotYetStored(f"The attempt is not in your progress yet. {error.title}", advice)
            self._tell(waiting, error)

    def _tell(self, waiting: _Waiting, stored: StoredAttempt | TutorError) -> None:
        try:
            waiting.then(stored)
        except Exception as error:  # the next attempt must be saved all the same
            self._log(error)

    def _finish(self) -> None:
        """Say what is not in the database when the process ends; wait for what is only in memory."""
        is_trying = self._thread is not None
        self.wait(_END_S)
        if in_memory := self._count_in_memory():
            _say(f"{_attempts(in_memory)} being saved to {self._progress}")
            self.wait() if is_trying else self._try()
        if lost := self._count_in_memory():
            _say(f"{_attempts(lost)} lost: neither {self._progress} nor its folder could be written.")
        if late := sum(each.is_spooled and each.entry.exists() for each in self._waiting):
            _say(f"{_attempts(late)} in {spool_folder(self._progress)}: the next start adds that to your progress.")

    def _count_in_memory(self) -> int:
        return sum(isinstance(each.what, FinishedRun) and not each.is_spooled for each in self._waiting)


def _attempts(number: int) -> str:
    return "1 attempt is" if number == 1 else f"{number} attempts are"


def _say(words: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # stderr may be closed
        print(f"gpututor: {words}", file=sys.stderr, flush=True)

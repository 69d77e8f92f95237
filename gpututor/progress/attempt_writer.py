"""Saving attempts and events: first in the spool, which survives a kill, then, by a thread, in the database.

The spool is a folder next to the progress file. Each entry is a file, or the folder of a recording with that file in
it, and appears in one step. Names of entries begin with the time, so the database gets them in order. An attempt's row
holds the name of its entry: draining an entry again adds nothing.
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
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpututor.errors import ProgressError, TutorError
from gpututor.files import sweep_parts, sync_folder, write_atomically
from gpututor.processes import is_alive
from gpututor.progress import database
from gpututor.progress.database import spool_folder, spooled
from gpututor.progress.store import ProgressStore, read_record

if TYPE_CHECKING:
    from gpututor.grading.report import Report
    from gpututor.progress.recordings import Recordings, StoredAttempt

ENTRY = "attempt.json"
"""Name of an entry's file within the folder of its recording."""
_END_S = 0.3
"""Seconds that an ending process waits for the database; the spool has all attempts already."""
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
        if self.kind is EventKind.HINTS:
            progress.open_hints(self.value, self.number)
            return
        store = {
            EventKind.CURRENT_EXERCISE: progress.set_current_exercise,
            EventKind.PLACE: progress.set_place,
            EventKind.SOLUTION_OPENED: progress.mark_solution_opened,
            EventKind.BEGUN_AGAIN: progress.mark_begun_again,
        }[self.kind]
        store(self.value)


class NotYetStored(ProgressError):
    """An attempt is safe in the spool, but the database did not take it."""


def new_entry(progress: Path) -> Path:
    """Return the path of a new entry, which comes after all others."""
    return spool_folder(progress) / f"{time.time_ns()}-{os.getpid()}-{next(_numbers)}"


def spool_attempt(entry: Path, run: FinishedRun) -> None:
    """Save a run, with its recording, as an entry that survives a power cut. Raises `OSError`."""
    content = json.dumps({"report": run.report.to_json(), "source": run.source.encode("utf-8", "replace").decode()})
    if run.recording is not None:
        with contextlib.suppress(OSError):  # the recording is gone, or on another disk
            write_atomically(run.recording / ENTRY, content)
            entry.parent.mkdir(parents=True, exist_ok=True)
            run.recording.rename(entry)
    if not entry.is_dir():
        write_atomically(entry, content)
    with contextlib.suppress(OSError):  # the entry is written; only a power cut right now could lose it
        if entry.is_dir():
            sync_folder(entry)
        sync_folder(entry.parent)


def spool_event(entry: Path, event: ProgressEvent) -> None:
    """Save an event as an entry that survives a kill. Raises `OSError`."""
    write_atomically(entry, json.dumps({"event": asdict(event)}), sync=False)


def drain_spool(progress: Path) -> int:
    """Move what is in the spool to the progress file; return the number of entries. What fails stays there."""
    with contextlib.suppress(TutorError):
        if spooled(progress):
            with contextlib.closing(ProgressStore(progress, patience=database.briefly)) as store:
                return len(_drain(store))
    return 0


def _drain(store: ProgressStore) -> dict[str, StoredAttempt | None]:
    """Store all entries; return by entry what is stored, None for an event. Raises `ProgressError`."""
    folder = spool_folder(store.path)
    stored = {}
    try:
        with database.exclusive_lock(folder, store.patience()):
            sweep_parts(folder, is_alive)
            for name in spooled(store.path):
                # An entry of a newer version of gpututor stays for that version.
                with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                    stored[name] = _store_entry(store, folder / name)
    except (OSError, sqlite3.OperationalError) as error:
        title = f"The spool of {store.path} cannot be read: {error}."
        raise ProgressError(title, "Close other gpututor processes.") from error
    return stored


def _store_entry(store: ProgressStore, entry: Path) -> StoredAttempt | None:
    from gpututor.progress.recordings import Recordings, store_attempt

    recording = entry if entry.is_dir() else None
    content: Any = json.loads((entry / ENTRY if recording else entry).read_text(encoding="utf-8"))
    attempt = None
    if "event" in content:
        event = content["event"]
        ProgressEvent(EventKind(event["kind"]), str(event["value"]), int(event["number"])).store(store)
    else:
        report, source = read_record(json.dumps(content["report"])), str(content["source"])
        recordings = Recordings.next_to(store)
        attempt = store_attempt(store, recordings, report, source, recording, spooled_as=entry.name)
        with contextlib.suppress(OSError):  # there may be no recording; a leftover file in it does no harm
            (recordings.folder / str(attempt.id) / ENTRY).unlink()
    if recording is None:
        entry.unlink(missing_ok=True)
    else:
        shutil.rmtree(recording, ignore_errors=True)
    return attempt


@dataclass(eq=False)
class _Pending:
    item: FinishedRun | ProgressEvent
    entry: Path
    then: Callable[[StoredAttempt | TutorError], object]
    is_spooled: bool = False
    """False while the disk refuses it: then it is only in memory."""
    has_failed: bool = False

    def spool(self) -> None:
        """Save it in the spool if possible."""
        with contextlib.suppress(OSError):  # `is_spooled` stays False: the writer keeps trying, and reports it
            if isinstance(self.item, FinishedRun):
                spool_attempt(self.entry, self.item)
            else:
                spool_event(self.entry, self.item)
            self.is_spooled = True


class AttemptWriter:
    """Writes attempts and events in their order, without keeping the caller waiting for the database.

    The spool has them when `save` returns. If the spool cannot be written, they stay in memory. The process then ends
    only when the database has them or cannot take them.
    """

    def __init__(self, progress: Path, *, log: Callable[[BaseException], object] | None = None) -> None:
        """`log` receives unexpected errors; without it they go to stderr."""
        self._progress = progress
        self._log = log or (lambda error: sys.__excepthook__(type(error), error, error.__traceback__))
        self._pending: list[_Pending] = []
        """Attempts that are not in the database, and events that are not even in the spool."""
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

        The thread calls `then` with the stored attempt. At the first failure, it calls `then` with the error, which is
        `NotYetStored` while the attempt is in the spool. It calls `then` again if a later try succeeds.
        """
        self._add(_Pending(run, new_entry(self._progress), then))

    def record(self, event: ProgressEvent, failed: Callable[[TutorError], object]) -> None:
        """Save an event. The thread calls `failed` if neither spool nor database take it."""
        entry = new_entry(self._progress)
        self._add(_Pending(event, entry, lambda error: isinstance(error, TutorError) and failed(error)))

    def wait(self, at_most_s: float | None = None) -> None:
        """Wait until all is stored, or has been tried."""
        if (thread := self._thread) is not None:
            thread.join(at_most_s)

    def wait_for_attempts(self, at_most_s: float) -> None:
        """Wait until each attempt is stored, or has been tried."""
        if any(isinstance(pending.item, FinishedRun) and not pending.has_failed for pending in list(self._pending)):
            self.wait(at_most_s)

    def take_notice(self) -> str | None:
        """Return, once, what the learner should know about the progress file, such as that it was damaged."""
        notice, self._notice = self._notice, None
        return notice

    def _add(self, pending: _Pending) -> None:
        pending.spool()
        with self._lock:
            self._has_new = True
            if isinstance(pending.item, FinishedRun) or not pending.is_spooled:
                self._pending.append(pending)
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
                    if not self._pending:
                        atexit.unregister(self._finish)
                    return
                self._has_new = False
            self._try()

    def _try(self) -> None:
        all_pending = list(self._pending)
        try:
            self._store(all_pending)
        except Exception as error:
            if isinstance(error, TutorError):
                failure = error
            else:
                self._log(error)
                failure = ProgressError(f"Progress could not be saved: {error!r}", "Look at the log.")
            for pending in all_pending:
                if pending in self._pending and not pending.has_failed:
                    pending.has_failed = True
                    self._report(pending, failure)

    def _store(self, all_pending: list[_Pending]) -> None:
        from gpututor.progress.recordings import prune_recordings, store_attempt

        for pending in all_pending:
            if not pending.is_spooled:
                pending.spool()
        end = time.monotonic() + database.BUSY_TIMEOUT_S

        def patience() -> float:
            return max(0.0, end - time.monotonic())

        with contextlib.closing(ProgressStore(self._progress, patience=patience)) as store:
            drained = _drain(store)
            for pending in all_pending:
                item, name = pending.item, pending.entry.name
                if isinstance(item, ProgressEvent):
                    if not pending.is_spooled:
                        item.store(store)
                    self._pending.remove(pending)
                    continue
                # Not drained: it is only in memory, or another process drained it.
                part = None if pending.is_spooled else item.recording
                attempt = drained.get(name) or store_attempt(
                    store, self.recordings, item.report, item.source, part, spooled_as=name
                )
                self._pending.remove(pending)
                self._report(pending, attempt)
            self._notice = store.notice or self._notice
            store.patience = database.briefly
            finished = [pending.item for pending in all_pending if isinstance(pending.item, FinishedRun)]
            for key in {run.report.exercise for run in finished}:
                with contextlib.suppress(TutorError):  # the next run tries again
                    prune_recordings(store, self.recordings, key)

    def _report(self, pending: _Pending, result: StoredAttempt | TutorError) -> None:
        if isinstance(result, TutorError) and pending.is_spooled:
            advice = f"It is safe in {pending.entry}; the next start adds it. {result.advice}"
            result = NotYetStored(f"The attempt is not in your progress yet. {result.title}", advice)
        try:
            pending.then(result)
        except Exception as error:  # the next attempt must be saved all the same
            self._log(error)

    def _finish(self) -> None:
        """Print which attempts are not in the database at the process's end; wait for those that are only in memory."""
        is_trying = self._thread is not None
        self.wait(_END_S)
        if in_memory := self._count_in_memory():
            _print(f"{_attempts(in_memory)} being saved to {self._progress}")
            self.wait() if is_trying else self._try()
        if lost := self._count_in_memory():
            _print(f"{_attempts(lost)} lost: neither {self._progress} nor its folder could be written.")
        if late := sum(pending.is_spooled and pending.entry.exists() for pending in self._pending):
            _print(f"{_attempts(late)} in {spool_folder(self._progress)}. The next start updates your progress.")

    def _count_in_memory(self) -> int:
        return sum(isinstance(pending.item, FinishedRun) and not pending.is_spooled for pending in self._pending)


def _attempts(number: int) -> str:
    return "1 attempt is" if number == 1 else f"{number} attempts are"


def _print(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # stderr may be closed
        print(f"gpututor: {text}", file=sys.stderr, flush=True)

"""Recordings of attempts, a folder each: those of an exercise's best attempt and of its newest attempts.

The judge writes into a pending folder next to them, and a rename turns the folder into a recording. The unfinished
folder of a killed process is therefore never taken for a recording; the next process removes it.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from gpututor.grading.recording import FILE, Recording, read_recording
from gpututor.grading.report import Report
from gpututor.processes import is_alive
from gpututor.progress.store import Attempt, ProgressStore

KEPT_NEWEST = 5
"""Limit of recordings for each exercise, in addition to the recording of its best attempt."""
MOST_BYTES = 200 << 20
"""Disk space of all recordings together."""
_NEW, _OLD = ".new-", ".old-"
_numbers = itertools.count()


class Recordings:
    """The recordings in `folder`, by attempt id or by another name. Unreadable ones count as missing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def next_to(cls, progress: ProgressStore) -> Recordings:
        """Return the recordings of the attempts in a progress file."""
        return cls(progress.path.with_name("recordings"))

    def create_pending(self) -> Path | None:
        """Create an empty folder for a recording, to adopt or discard; return None if that fails."""
        part = self.folder / f"{_NEW}{os.getpid()}-{next(_numbers)}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.sweep()
            part.mkdir()
        except OSError:
            return None
        return part

    def adopt(self, part: Path, attempt: int | str) -> bool:
        """Make `part` the recording of the attempt, in one step; return True if that succeeded."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.drop(attempt)
            part.rename(self.folder / str(attempt))
        except OSError:
            self.discard(part)
            return False
        return True

    def discard(self, part: Path | None) -> None:
        if part is not None:
            shutil.rmtree(part, ignore_errors=True)

    def drop(self, attempt: int | str) -> None:
        """Remove the recording of the attempt if there is one; half of a recording is never visible."""
        old = self.folder / f"{_OLD}{os.getpid()}-{next(_numbers)}"
        with contextlib.suppress(FileNotFoundError):
            (self.folder / str(attempt)).rename(old)
            shutil.rmtree(old, ignore_errors=True)

    def path(self, attempt: int | str) -> Path | None:
        """Return the folder of the attempt's recording."""
        folder = self.folder / str(attempt)
        return folder if (folder / FILE).is_file() else None

    def read(self, attempt: int | str) -> Recording | None:
        """Return the recording of the attempt; None if it is missing or cannot be read."""
        return _read(self.folder / str(attempt))

    def ids(self) -> list[int]:
        """Return the attempts that have a recording, the oldest first."""
        try:
            names = os.listdir(self.folder)
        except OSError:
            return []  # no folder yet
        return sorted(int(name) for name in names if name.isascii() and name.isdigit())

    def prune(self, of_exercise: Collection[int], keep: Collection[int]) -> None:
        """Keep only the recordings of `keep` among those `of_exercise`, and at most `MOST_BYTES` of all recordings."""
        for attempt in self.ids():
            if attempt in of_exercise and attempt not in keep:
                self._drop_quietly(attempt)
        sizes = {attempt: _size(self.folder / str(attempt)) for attempt in self.ids()}
        for attempt in sorted(sizes, key=lambda attempt: attempt in keep)[:-1]:
            if sum(sizes.values()) <= MOST_BYTES:
                break
            self._drop_quietly(attempt)
            del sizes[attempt]

    def prune_oldest(self) -> None:
        """Keep the newest recordings, whatever their names: up to `MOST_BYTES`, and at least one."""
        try:
            entries = [entry for entry in os.scandir(self.folder) if not entry.name.startswith((_NEW, _OLD))]
            entries.sort(key=lambda entry: entry.stat(follow_symlinks=False).st_mtime_ns, reverse=True)
        except OSError:  # no folder yet, or another process is removing some
            return
        taken = 0
        for number, entry in enumerate(entries):
            taken += _size(Path(entry.path))
            if number and taken > MOST_BYTES:
                self._drop_quietly(entry.name)

    def sweep(self) -> None:
        """Remove the folders that ended processes left."""
        for entry in list(os.scandir(self.folder)):
            kind, _, rest = entry.name.partition("-")
            process = rest.partition("-")[0]
            if f"{kind}-" in (_NEW, _OLD) and process.isdigit() and not is_alive(int(process)):
                shutil.rmtree(entry.path, ignore_errors=True)

    def _drop_quietly(self, attempt: int | str) -> None:
        with contextlib.suppress(OSError):  # the next attempt tries again
            self.drop(attempt)


@dataclass(frozen=True)
class StoredAttempt:
    """An attempt in the progress file, with its recording."""

    id: int
    attempt: Attempt | None
    """None if it does not count, such as a broken grading."""
    recording: Recording | None


def store_attempt(
    progress: ProgressStore,
    recordings: Recordings,
    report: Report,
    source: str,
    part: Path | None,
    *,
    spooled_as: str | None = None,
) -> StoredAttempt:
    """Store an attempt, only once if it has a name in the spool, and adopt the recording in `part`.

    Raises `ProgressError` and leaves `part` alone if the attempt cannot be stored. A failing recording is not an error.
    """
    recording = None if part is None else _read(part)
    attempt = progress.id_of_entry(spooled_as) if spooled_as is not None else None
    is_new = attempt is None
    if attempt is None:
        run_ns = recording.elapsed_ns or None if recording else None
        peak_bytes = recording.peak_bytes if recording else None
        attempt = progress.record(report, source, run_ns=run_ns, peak_bytes=peak_bytes, spooled_as=spooled_as)
    if part is not None and recording is not None and recordings.adopt(part, attempt):
        recording = replace(recording, folder=str(recordings.path(attempt)))
    elif is_new:
        recording = None
        recordings.discard(part)
        with contextlib.suppress(OSError):
            recordings.drop(attempt)  # of a progress file that was set aside, whose attempts had the same ids
    else:
        recording = recordings.read(attempt)
    return StoredAttempt(attempt, progress.attempt(attempt), recording)


def prune_recordings(progress: ProgressStore, recordings: Recordings, key: str) -> None:
    """Keep the best and the newest recordings of the exercise recorded last. Raises `ProgressError`."""
    best = progress.best(key)
    ids = progress.all_ids(key)
    known = set(recordings.ids())
    newest = [attempt for attempt in ids if attempt in known][:KEPT_NEWEST]
    recordings.prune(set(ids), [*newest, *([best.id] if best else [])])


def _read(folder: Path) -> Recording | None:
    with contextlib.suppress(OSError, ValueError):
        return read_recording(folder)
    return None


def _size(folder: Path) -> int:
    with contextlib.suppress(OSError):
        return sum(entry.stat(follow_symlinks=False).st_size for entry in os.scandir(folder))
    return 0

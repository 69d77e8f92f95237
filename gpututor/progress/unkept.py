"""What could not be put into the progress file: each a folder beside it, until it can be, at the next start at last.

A folder gets its name in one step, when all is in it; it begins with the time, so that what came first is taken in
first. What was taken in by a process that ended before the folder was gone is not put into the file a second time.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpututor.errors import TutorError
from gpututor.progress import database

if TYPE_CHECKING:
    from gpututor.grading.report import Report
    from gpututor.progress.notes import Note
    from gpututor.progress.recordings import Recordings
    from gpututor.progress.store import ProgressStore

ATTEMPT, NOTE, RECORDING = "attempt.json", "note.json", "recording"
_UNFINISHED = ".new"
_numbers = itertools.count()


def put_attempt_aside(progress: Path, report: Report, source: str, part: Path | None) -> Path:
    """Keep an attempt beside the progress file, with what was recorded in `part`. Raises `OSError`."""

    def add_recording(folder: Path) -> None:
        if part is not None:
            with contextlib.suppress(OSError):
                part.rename(folder / RECORDING)

    return _put(progress, "attempt", ATTEMPT, {"report": report.to_json(), "source": source}, add_recording)


def put_note_aside(progress: Path, note: Note) -> Path:
    """Keep a note beside the progress file, in place of those of its name. Raises `OSError`."""
    import hashlib

    mark = hashlib.sha256(note.name.encode("utf-8", "replace")).hexdigest()[:16]
    older = list(_beside(progress).glob(f"*-{mark}"))
    new = _put(progress, mark, NOTE, note.to_json())
    for folder in older:
        shutil.rmtree(folder, ignore_errors=True)
    return new


def take_in(progress: Path) -> int:
    """Put into the progress file what is beside it, and say how much that was; what cannot be now is left there."""
    if not _left(progress):
        return 0
    from gpututor.progress.store import ProgressStore

    taken = 0
    with (
        contextlib.suppress(TutorError),
        contextlib.closing(ProgressStore(progress, patience=database.briefly)) as store,
    ):
        taken = take_into(store)
    return taken


def take_into(store: ProgressStore) -> int:
    """As `take_in`, into the file that is open; raises `ProgressError` where that cannot be written now."""
    from gpututor.progress.recordings import Recordings

    recordings = Recordings.beside(store)
    return sum([_take(_beside(store.path) / name, store, recordings) for name in _left(store.path)])


def _put(
    progress: Path, ending: str, name: str, content: dict[str, Any], add: Callable[[Path], None] = lambda _: None
) -> Path:
    from gpututor.files import write_atomically

    folder = _beside(progress) / f"{time.time_ns()}-{os.getpid()}-{next(_numbers)}-{ending}"
    new = folder.with_name(folder.name + _UNFINISHED)
    new.mkdir(parents=True)
    try:
        write_atomically(new / name, json.dumps(content))
        add(new)
        return new.rename(folder)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise


def _left(progress: Path) -> list[str]:
    """The names of the folders, the oldest first; also of what a process began that is gone now."""
    try:
        names = os.listdir(_beside(progress))
    except OSError:
        return []
    return sorted(name for name in names if not name.endswith(_UNFINISHED) or not _is_being_made(name))


def _is_being_made(name: str) -> bool:
    from gpututor.progress.recordings import is_running

    process = name.split("-")[1:2]
    return bool(process) and process[0].isdecimal() and is_running(int(process[0]))


def _take(folder: Path, store: ProgressStore, recordings: Recordings) -> bool:
    """Whether it holds anything that is new."""
    from gpututor.progress.notes import Note
    from gpututor.progress.recordings import keep_attempt
    from gpututor.progress.records import read_record

    is_new = False
    try:
        if (kept := _content(folder / ATTEMPT)) is not None:
            report, source = read_record(json.dumps(kept["report"])), kept["source"]
            part = folder / RECORDING
            is_new = keep_attempt(store, recordings, report, source, part if part.is_dir() else None, once=True) != 0
        elif (kept := _content(folder / NOTE)) is not None:
            Note.from_json(kept).write(store)
            is_new = True
    except (OSError, ValueError, KeyError, TypeError):
        return False  # of a newer gpututor, or nobody may read it
    shutil.rmtree(folder, ignore_errors=True)
    return is_new


def _content(file: Path) -> Any:
    """None where there is no such file."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None


def _beside(progress: Path) -> Path:
    return progress.with_name("unkept")

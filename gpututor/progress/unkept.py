"""Attempts that could not be put into the progress file: each a folder beside it, until the next start takes it in.

A folder gets its name in one step, when all is in it. An attempt that was taken in by a process that ended before the
folder was gone is not put into the file a second time.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from gpututor.errors import TutorError

if TYPE_CHECKING:
    from gpututor.grading.report import Report
    from gpututor.progress.recordings import Recordings
    from gpututor.progress.store import ProgressStore

ATTEMPT, RECORDING = "attempt.json", "recording"
_BRIEFLY_S = 0.2
"""How long a start waits for another process that is writing."""


def put_aside(progress: Path, report: Report, source: str, part: Path | None) -> Path:
    """Keep an attempt beside the progress file, with what was recorded in `part`. Raises `OSError`."""
    from gpututor.files import write_atomically

    folder = _beside(progress)
    folder.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=".new-", dir=folder))
    try:
        write_atomically(new / ATTEMPT, json.dumps({"report": report.to_json(), "source": source}))
        if part is not None:
            with contextlib.suppress(OSError):
                part.rename(new / RECORDING)
        return new.rename(folder / f"{time.time_ns()}-{new.name.removeprefix('.new-')}")
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise


def take_in(progress: Path) -> int:
    """Put into the progress file what is beside it, and say how many attempts; what cannot be now is left there."""
    try:
        names = sorted(name for name in os.listdir(_beside(progress)) if not name.startswith("."))
    except OSError:
        return 0
    if not names:
        return 0
    from gpututor.progress.recordings import Recordings
    from gpututor.progress.store import ProgressStore

    taken = 0
    with contextlib.suppress(TutorError), contextlib.closing(ProgressStore(progress, busy_s=_BRIEFLY_S)) as store:
        for name in names:
            taken += _take_in(_beside(progress) / name, store, Recordings.beside(store))
    return taken


def _take_in(folder: Path, store: ProgressStore, recordings: Recordings) -> bool:
    from gpututor.progress.recordings import keep_attempt
    from gpututor.progress.records import read_record

    try:
        kept = json.loads((folder / ATTEMPT).read_text(encoding="utf-8"))
        report, source = read_record(json.dumps(kept["report"])), kept["source"]
    except FileNotFoundError:  # taken in already
        shutil.rmtree(folder, ignore_errors=True)
        return False
    except (OSError, ValueError, KeyError, TypeError):
        return False
    part = folder / RECORDING
    is_new = keep_attempt(store, recordings, report, source, part if part.is_dir() else None, once=True) != 0
    shutil.rmtree(folder, ignore_errors=True)
    return is_new


def _beside(progress: Path) -> Path:
    return progress.with_name("unkept")

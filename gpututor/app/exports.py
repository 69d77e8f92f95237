"""What a learner takes along: a trace for Perfetto, a picture of the screen. No Textual here."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from gpututor.errors import WorkspaceError

if TYPE_CHECKING:
    from gpututor.app.widgets.device.view import RunView

FOLDER = "exports"
"""In the learner's folder."""


def export(folder: Path, name: str, ending: str, write: Callable[[TextIO], None]) -> Path:
    """Write a new file below `folder`, which is made when it is not there; no file is ever replaced.

    `name` is followed by the time, and by a number where that is taken. Raises `WorkspaceError`, in words, for a
    folder that cannot be written and for a full disk; then nothing is left there.
    """
    stem = f"{re.sub(r'[^A-Za-z0-9._-]+', '-', name).strip('-.')}-{datetime.now():%Y-%m-%d-%H%M%S}"
    path = folder / f"{stem}{ending}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for number in count(2):
            try:
                stream = path.open("x", encoding="utf-8")
            except FileExistsError:
                path = folder / f"{stem}-{number}{ending}"
                continue
            try:
                with stream:
                    write(stream)
            except BaseException:
                with contextlib.suppress(OSError):
                    path.unlink()
                raise
            break
    except OSError as error:
        raise WorkspaceError(
            f"{path} cannot be written: {error.strerror or error}.",
            "Look at the rights and the free space of that folder, then try again.",
        ) from error
    return path


def export_trace(folder: Path, view: RunView) -> Path:
    """Write the traces of a case for https://ui.perfetto.dev and chrome://tracing. Takes seconds for long ones.

    Raises `WorkspaceError`, also where there is no trace, or nothing to see in it.
    """
    from gpututor.trace.chrome import write_timelines

    processes = view.loaded.processes if view.loaded is not None else ()
    if not processes:
        raise WorkspaceError("There is no trace of this call that could be exported.", "Run the checks again.")
    if view.loaded is not None and not view.loaded.used_a_device:
        advice = "Only what a device does can be seen in Perfetto: export an attempt that uses one."
        raise WorkspaceError("No device did anything in this call: nothing was written.", advice)
    label = view.title.partition(" ")[0]
    call = f"-call-{view.case_number + 1}" if len(view.run.calls) > 1 else ""
    scenario = f"-{view.run.scenario}" if len(view.recording.runs) > 1 else ""
    name = f"{label}-attempt-{view.attempt}{scenario}{call}"
    traces = [(process.name, process.rows.trace) for process in processes]
    return export(folder, name, ".json", lambda stream: write_timelines(traces, stream))


def export_picture(folder: Path, name: str, svg: str) -> Path:
    """Write a picture of the screen. Raises `WorkspaceError`."""

    def write(stream: TextIO) -> None:
        stream.write(svg)

    return export(folder, f"{name}-screen", ".svg", write)

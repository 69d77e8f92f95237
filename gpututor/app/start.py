"""Start of the app: opens the course, the workspace and the progress."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gpututor.app.app import GpututorApp
from gpututor.app.runtime import GcScheduler
from gpututor.errors import UsageError
from gpututor.files import sweep_parts
from gpututor.paths import builtin_course, drafts_folder, progress_file
from gpututor.processes import is_alive
from gpututor.progress.store import ProgressStore

if TYPE_CHECKING:
    from gpututor.hardware.inventory import Inventory


def _find_devices() -> Inventory:
    from gpututor.hardware.inventory import load_inventory

    return load_inventory()


def run(course_folder: Path | None = None, workspace_folder: Path | None = None) -> int:
    """Run the app and return the exit status. Raises `TutorError` if the app cannot start."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()) and "TEXTUAL_DRIVER" not in os.environ:
        raise UsageError(
            "The app needs a terminal, and this is not one.",
            "Without a terminal, use verbs such as `gpututor list` and `gpututor grade EXERCISE`.",
        )
    from gpututor.course.loader import load_course
    from gpututor.course.workspace import check_not_missing, find_workspace
    from gpututor.grading.client import QUICKEST, GradingClient
    from gpututor.progress.attempt_writer import drain_spool

    course = load_course(course_folder or builtin_course())
    course.continue_at(None)  # without an exercise there is nothing to show
    workspace = find_workspace(workspace_folder, course)
    if workspace is None and workspace_folder is None:
        check_not_missing(course)
    for folder in (drafts_folder(), *([workspace.folder] if workspace is not None else [])):
        sweep_parts(folder, is_alive)
    drain_spool(path := progress_file(course.place))
    progress = ProgressStore(path)
    client = GradingClient(workers=QUICKEST)
    try:
        GpututorApp(
            course=course,
            workspace=workspace,
            progress=progress,
            client=client,
            new_workspace=workspace_folder,
            find_devices=_find_devices,
            collector=GcScheduler(),
        ).run()
    finally:
        client.close()
        progress.close()
    return 0

"""Parts of a grading that `grade`, `grade --all` and `watch` share."""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

from gpututor import __version__
from gpututor.cli.options import print_error
from gpututor.course.model import Course, Exercise
from gpututor.course.workspace import find_workspace
from gpututor.errors import TutorError, WorkspaceError
from gpututor.grading.client import IsolationName
from gpututor.grading.events import GradeRequest
from gpututor.grading.report import Environment, Outcome, Report
from gpututor.text import escape_control_chars

if TYPE_CHECKING:
    from gpututor.progress.attempt_writer import AttemptWriter, FinishedRun


def isolation_for(arguments: argparse.Namespace, course: Course | None = None) -> IsolationName:
    """Return the isolation of `--isolation`; with `auto`, other people's files run in bubblewrap."""
    if arguments.isolation != "auto":
        return cast("IsolationName", arguments.isolation)
    if arguments.file is None:
        return "process"
    workspace = find_workspace(arguments.workspace, course)
    own = workspace is not None and arguments.file.resolve().is_relative_to(workspace.folder.resolve())
    return "process" if own else "bubblewrap"


def request_for(arguments: argparse.Namespace, exercise: Exercise, text: str, file_name: str) -> GradeRequest:
    """Return the request for a text with the options of `gpututor grade`."""
    return GradeRequest(
        exercise_folder=str(exercise.folder),
        submission=text,
        file_name=file_name,
        device=arguments.device,
        gpu=arguments.gpu,
        gpus=arguments.gpus,
        seed=arguments.seed,
        reviews_source=arguments.json,
    )


def save_attempt(writer: AttemptWriter, run: FinishedRun, show: Callable[[], object]) -> None:
    """Save an attempt, show its outcome, then wait for the database and print its errors on stderr."""
    errors: list[TutorError] = []
    writer.save(run, lambda stored: errors.append(stored) if isinstance(stored, TutorError) else None)
    show()
    sys.stdout.flush()
    writer.wait()
    for error in errors:
        print_error(error)
    if notice := writer.take_notice():
        print(f"gpututor: {escape_control_chars(notice)}", file=sys.stderr)


def rejection(exercise: Exercise, error: WorkspaceError) -> Report:
    """Return the report of a file that cannot be read as text."""
    machine = f"{sys.platform} {platform.machine()}"
    environment = Environment(
        gpututor=__version__, torch="", python=platform.python_version(), platform=machine, isolation="", seed=0
    )
    return Report(
        exercise=exercise.key,
        outcome=Outcome.REJECTED,
        verdicts=(),
        runs=(),
        environment=environment,
        submission_sha256="",
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        elapsed_s=0.0,
        reason=str(error),
    )

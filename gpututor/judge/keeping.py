"""Writing a report to the journal of a class, under a key that is true of what was done."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gpututor import __version__
from gpututor.classroom.keys import exercise_version
from gpututor.course.exercise import Exercise
from gpututor.errors import GradingError
from gpututor.grading.events import GradeRequest
from gpututor.grading.inventory import torch_version
from gpututor.grading.journal import GradingKey, write_entry
from gpututor.grading.report import Outcome, Report
from gpututor.judge.about import sha256_of

NOT_KEPT = (Outcome.INTERNAL_ERROR, Outcome.NOT_GRADABLE_HERE)
"""They say nothing of the submission, and may go another way at the next try."""


def check_key(request: GradeRequest, exercise: Exercise, isolation: str) -> None:
    """Raises `GradingError` where the request's key is not true of what is about to be graded."""
    if request.key is not None:
        done = replace(
            request.key,
            submission=sha256_of(request.submission),
            exercise=exercise.key,
            exercise_version=exercise_version(exercise.folder),
            gpututor=__version__,
            torch=torch_version(),
            isolation=isolation,
        )
        _check_same(request.key, done)


def check_machine(request: GradeRequest, torch: str, device: str) -> None:
    """Raises `GradingError` where the key names another PyTorch or another device than the worker has."""
    if request.key is not None:
        _check_same(request.key, replace(request.key, torch=torch, device=device))


def _check_same(key: GradingKey, done: GradingKey) -> None:
    lies = [
        f"{name} is {getattr(done, name)!r}, not {told!r}"
        for name, told in vars(key).items()
        if getattr(done, name) != told
    ]
    if lies:
        raise GradingError(
            f"The grading is not the one that was asked for: {'; '.join(lies)}.",
            "Change nothing of the course or of this installation while a class is graded; then go on with --resume.",
        )


def keep(request: GradeRequest, report: Report) -> None:
    """Put the report in the journal that the request names. Raises `GradingError` where it cannot be written."""
    if request.journal is None or request.key is None or report.outcome in NOT_KEPT:
        return
    try:
        write_entry(Path(request.journal), request.key, report)
    except OSError as error:
        advice = "Make room there, or give yourself the right to write; then go on with --resume."
        raise GradingError(f"{request.journal}: the report cannot be written ({error.strerror}).", advice) from error

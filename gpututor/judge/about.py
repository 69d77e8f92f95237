"""The parts of a report that are the same whatever was graded, and the report when the grader broke."""

from __future__ import annotations

import errno
import hashlib
import platform
import secrets
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from gpututor import __version__
from gpututor.checks.authors import authors_frames, fault_of
from gpututor.course.catalogue import load_exercise
from gpututor.errors import TutorError, UsageError
from gpututor.grading.events import GradeRequest
from gpututor.grading.report import Environment, Outcome, Report, Workers
from gpututor.judge.verdicts import LONGEST
from gpututor.plain_text import shortened


def with_seed(request: GradeRequest) -> GradeRequest:
    """With a seed drawn, where it has none: who grades twice, or reports what broke, needs the same one."""
    return request if request.seed is not None else replace(request, seed=secrets.randbits(32))


def broken_report(request: GradeRequest, error: BaseException, isolation: str) -> Report:
    """The report when the grader or the exercise broke, in words. Never the learner's fault."""
    outcome = Outcome.REJECTED if isinstance(error, UsageError) else Outcome.INTERNAL_ERROR
    if not isinstance(error, TutorError) and authors_frames(error):
        error = fault_of(error)
    reason = str(error) if isinstance(error, TutorError) else f"{type(error).__name__}: {error}"
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        place = f" in {Path(error.filename).parent}" if error.filename else ""
        reason = f"There is no space left to write to{place}.\nMake some, then try again."
    return Report(
        exercise=_key(Path(request.exercise_folder)),
        outcome=outcome,
        verdicts=(),
        runs=(),
        environment=environment_of(request.seed or 0, isolation=isolation),
        submission_sha256=sha256_of(request.submission),
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        elapsed_s=0.0,
        reason=shortened(reason, LONGEST),
    )


def _key(folder: Path) -> str:
    try:
        return load_exercise(folder).key
    except TutorError:
        return folder.name


def environment_of(
    seed: int, torch: str = "", isolation: str = "", workers: Workers = "", driver: str = ""
) -> Environment:
    """Where this judge is, and what it was told."""
    return Environment(
        gpututor=__version__,
        torch=torch,
        python=platform.python_version(),
        platform=f"{sys.platform} {platform.machine()}",
        isolation=isolation,
        seed=seed,
        workers=workers,
        driver=driver,
    )


def sha256_of(text: str) -> str:
    """Of a submission."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()

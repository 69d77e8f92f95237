"""Gradings of the tiny course by a real judge."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from gpututor.course.loader import load_exercise
from gpututor.grading.client import GradingClient
from gpututor.grading.events import GradeRequest, GradingFinished
from gpututor.grading.report import Report
from gpututor.judge.devices import machine_specs
from gpututor.judge.runner import RunObservation, RunPlan, SourceFile, run_submission
from gpututor.judge.workers import Worker
from gpututor.trace.columns import Trace
from gpututor.trace.serialization import trace_to_json
from tests.support.tiny_course import append

Grade = Callable[..., Report]


USERS_SHELL = {"GPUTUTOR_SECRET": "hidden", "PYTHONPATH": "/nowhere"}
"""Variables that the shared judge was started with, and that no worker may see."""
EMPTY_TRACE = trace_to_json(Trace())


def failure(report: Report) -> tuple[str, str, int | None]:
    """Return check, finding and line of the first failed check."""
    first = report.first_failure
    assert first is not None
    return first.check, first.got, first.line


def grade_in(client: GradingClient, folder: Path, submission: str, **options: object) -> Report:
    """Return the report of a judge on a submission to the exercise in `folder`."""
    *_, end = client.grade(GradeRequest(str(folder), submission, "a.py", **options))  # type: ignore[arg-type]
    assert isinstance(end, GradingFinished)
    return end.report


def time_limit(folder: Path, seconds: float) -> None:
    append(folder / "exercise.toml", f"[limits]\nwall_s = {seconds}\n")


def judge_of(client: GradingClient) -> int:
    """Return the process id of a client's judge."""
    assert client._judge is not None
    return client._judge.pid


def gone(pid: int) -> bool:
    """Return True if the process ended, or only waits for its parent."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return True


QUIET_FORKS = (
    "import os, signal\ndef twice(number):\n    for _ in range(150):\n        if os.fork() == 0:\n"
    "            os.setsid()\n            signal.pause()\n    signal.pause()\n"
)


def observed(worker: Worker, folder: Path, source: str, plan: RunPlan) -> RunObservation:
    """Run a submission in `worker`, and return the result."""
    exercise = load_exercise(folder)
    spec = machine_specs(exercise, GradeRequest(str(folder), source, "a.py"), worker.devices)[0]
    submission = SourceFile("a.py", source)
    return run_submission(worker, exercise, spec, submission, [{"number": 1}], exercise.given, plan)


def asked(worker: Worker, folder: Path, source: str) -> str:
    """Run a submission in `worker`; return what it printed."""
    seen = observed(worker, folder, source, RunPlan())
    assert seen.failure is None, seen.failure
    return seen.printed

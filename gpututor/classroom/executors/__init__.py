"""Executors: they grade the jobs of a class."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from gpututor.classroom.jobs import Job
from gpututor.classroom.work_queue import WorkQueue
from gpututor.errors import GradingError, UsageError
from gpututor.files import write_atomically
from gpututor.grading.client import QUICKEST, GradingClient, GradingService, IsolationName
from gpututor.grading.events import GradingFinished, WaitingForDevice
from gpututor.grading.journal import read_entry
from gpututor.grading.report import Outcome

NO_RESULTS = (Outcome.INTERNAL_ERROR, Outcome.NOT_GRADABLE_HERE)


class Executor(Protocol):
    """A way to grade the jobs of a queue. The results are in the journal."""

    def run(self, work: WorkQueue) -> None:
        """Grade until `work` is over or stopped. Ctrl-C raises `KeyboardInterrupt`, with nothing left running."""


def start_judge(isolation: IsolationName) -> GradingService:
    """Return a judge for many submissions."""
    return GradingClient(isolation, QUICKEST)


class GradingFailed(GradingError):
    """A grading without a report, probably through no fault of the submission."""


def grade_job(
    judge: GradingService, job: Job, device: str = "", on_wait: Callable[[float], None] = lambda waited_s: None
) -> Outcome:
    """Grade a job, and return once its report is in the journal. `device`: the real device to use, if any.

    `on_wait` is called repeatedly with the seconds for which other gradings have blocked the device; its exceptions
    end the grading. A judge that exceeds the job's time limit is killed. Raises `GradingFailed` if there is no report,
    and `UsageError` if none can be written.
    """
    failure = "The grading was cancelled."
    with _Watchdog(job.timeout_s, judge.cancel) as watchdog:
        try:
            since = time.monotonic()
            for event in judge.grade(job.request(device)):
                if isinstance(event, WaitingForDevice):
                    watchdog.restart()
                    on_wait(time.monotonic() - since)
                else:
                    since = time.monotonic()
                if isinstance(event, GradingFinished):
                    report = event.report
                    is_result = report.outcome not in NO_RESULTS
                    if is_result and job.is_graded:
                        return report.outcome
                    lost = "The judge reported a result, but the journal does not have it."
                    failure = lost if is_result else report.reason or f"The grading ended with {report.outcome}."
        except GradingFailed:
            raise
        except GradingError as error:
            if (written := written_outcome(job)) is not None:
                return written  # the judge died after it wrote the report
            failure = str(error)
    check_journal(job)
    raise GradingFailed(f"It hung for {job.timeout_s:.0f} s and was stopped." if watchdog.has_fired else failure)


def written_outcome(job: Job) -> Outcome | None:
    """Read the outcome in the journal; None if there is none, or it cannot be read."""
    with contextlib.suppress(GradingError):
        report = read_entry(Path(job.journal), job.key)
        return report.outcome if report is not None else None
    return None


def check_journal(job: Job) -> None:
    """Raise `UsageError` if the journal cannot be written to, so that nothing can be graded."""
    probe = Path(job.journal, ".can-be-written")
    try:
        write_atomically(probe, "\0" * 65536)
        probe.unlink(missing_ok=True)  # another process may have checked at the same time
    except OSError as error:
        title = f"{job.journal} cannot be written to ({error.strerror}). Grading stopped."
        raise UsageError(title, "Free some space, or give yourself write permission.") from error


class _Watchdog:
    """A timer that calls `cancel` after `timeout_s`."""

    def __init__(self, timeout_s: float, cancel: Callable[[], None]) -> None:
        self._timeout_s = timeout_s
        self._cancel = cancel
        self._timer: threading.Timer | None = None
        self.has_fired = False

    def restart(self) -> None:
        self._stop()
        self._timer = threading.Timer(self._timeout_s, self._fire)
        self._timer.daemon = True
        self._timer.start()

    def __enter__(self) -> _Watchdog:
        self.restart()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _fire(self) -> None:
        self.has_fired = True
        self._cancel()

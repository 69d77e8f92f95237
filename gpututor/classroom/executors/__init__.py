"""Executors: they grade the jobs of a class."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol, Self

from gpututor.classroom.jobs import Job
from gpututor.classroom.work_queue import WorkQueue, is_in_journal
from gpututor.errors import GradingError, UsageError
from gpututor.files import write_atomically
from gpututor.grading.client import QUICKEST, GradingClient, IsolationName
from gpututor.grading.events import GradeRequest, GradingEvent, GradingFinished, WaitingForDevice
from gpututor.grading.journal import read_entry
from gpututor.grading.report import Outcome


class Executor(Protocol):
    """A way to get gradings done. The journal holds the results, whoever does them."""

    def run(self, work: WorkQueue) -> None:
        """Returns when `work` is over, or stopped. Ctrl-C raises `KeyboardInterrupt`, with nothing left running."""


NO_RESULTS = (Outcome.INTERNAL_ERROR, Outcome.NOT_GRADABLE_HERE)


class Judge(Protocol):
    """As `GradingClient`."""

    def grade(self, request: GradeRequest) -> Iterator[GradingEvent]: ...

    def cancel(self) -> None: ...

    def close(self) -> None: ...


def judge_in(isolation: IsolationName) -> Judge:
    """A real one, for many submissions."""
    return GradingClient(isolation, QUICKEST)


class GradingFailed(GradingError):
    """A grading came to no report, through no fault of the submission as far as is known."""


def grade_job(
    judge: Judge, job: Job, device: str = "", awaited: Callable[[float], None] = lambda for_s: None
) -> Outcome:
    """Returns when the report stands in the journal. `device`: the real one that was chosen, where it is for one.

    `awaited` is told now and then for how many seconds others have had the device for themselves; what it raises ends
    the grading. A judge that takes longer than the job may is killed. Raises `Broke` where there is no report, and
    `UsageError` where none can be written.
    """
    end: GradingFinished | None = None
    with _Watch(job.within_s, judge.cancel) as watch:
        try:
            since = time.monotonic()
            for event in judge.grade(job.request(device)):
                if isinstance(event, WaitingForDevice):
                    watch.begin()  # it is others who take long
                    awaited(time.monotonic() - since)
                else:
                    since = time.monotonic()
                end = event if isinstance(event, GradingFinished) else None
        except GradingFailed:
            raise
        except GradingError as error:
            if (written := written_outcome(job)) is not None:
                return written  # it died after its work was done
            check_journal(job)
            raise GradingFailed(_hung(job) if watch.has_ended else str(error)) from error
    if end is not None and end.report.outcome not in NO_RESULTS and is_in_journal(job):
        return end.report.outcome
    check_journal(job)
    if watch.has_ended:
        raise GradingFailed(_hung(job))
    if end is None:
        raise GradingFailed("The grading was cancelled.")
    if end.report.outcome not in NO_RESULTS:
        raise GradingFailed("The judge said that it was done, and its report is not in the journal.")
    raise GradingFailed(end.report.reason or f"It ended with {end.report.outcome}.")


def written_outcome(job: Job) -> Outcome | None:
    """What the journal says; None where it says nothing that can be read."""
    with contextlib.suppress(GradingError):
        report = read_entry(Path(job.journal), job.key)
        return report.outcome if report is not None else None
    return None


def check_journal(job: Job) -> None:
    """Raises `UsageError` where nothing can be written to the journal, which is why nothing can be graded."""
    probe = Path(job.journal, ".can-be-written")
    try:
        write_atomically(probe, "\0" * 65536)
        probe.unlink(missing_ok=True)  # another may have probed at the same time
    except OSError as error:
        title = f"{job.journal} cannot be written to ({error.strerror}), so nothing more was graded."
        raise UsageError(title, "Make room, or give yourself the right to write there.") from error


def _hung(job: Job) -> str:
    return f"It hung, and was ended after {job.within_s:.0f} s."


class _Watch:
    """Cancels what takes longer than `within_s`."""

    def __init__(self, within_s: float, cancel: Callable[[], None]) -> None:
        self._within_s = within_s
        self._cancel = cancel
        self._timer: threading.Timer | None = None
        self.has_ended = False
        """It."""

    def begin(self) -> None:
        """All of the time is there again."""
        self._stop()
        self._timer = threading.Timer(self._within_s, self._end)
        self._timer.daemon = True
        self._timer.start()

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _end(self) -> None:
        self.has_ended = True
        self._cancel()

"""The queue of gradings that are still to do: claims, results and retries.

Any behavior of a submission is a final result. If the grading itself fails, another judge retries it after all other
jobs.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from gpututor.classroom.jobs import Job, JobFailure
from gpututor.errors import TutorError
from gpututor.grading.report import Outcome

MOST_ATTEMPTS = 3
"""Most attempts at a grading that fails."""
MOST_BROKEN = 8
"""Failures after which an exercise counts as broken, if none of its gradings succeeded before."""


@dataclass(frozen=True)
class Claim:
    """A job for an executor to claim."""

    job: Job
    number: int = 1
    """Number of the claim from 1: a job whose grading fails is claimed again."""


@dataclass(frozen=True)
class Progress:
    """Progress of a run."""

    total: int
    outcomes: dict[Outcome, int] = field(default_factory=dict)
    abandoned: int = 0
    in_flight: int = 0
    retried: int = 0
    """Attempts that failed and were repeated."""
    elapsed_s: float = 0.0
    since_first_s: float = 0.0
    """Seconds since the first grading was done. Before it, judges start."""

    @property
    def done(self) -> int:
        return sum(self.outcomes.values())

    @property
    def per_s(self) -> float:
        return self.done / self.elapsed_s if self.elapsed_s else 0.0

    @property
    def left_s(self) -> float | None:
        """Seconds until the run is over; None if unknown."""
        left = self.total - self.done - self.abandoned
        return left * self.since_first_s / (self.done - 1) if self.done > 1 else None


class WorkQueue:
    """All jobs of one run; thread-safe. `working`: exercises with earlier gradings, which never count as broken."""

    def __init__(self, jobs: Iterable[Job], working: Iterable[str] = ()) -> None:
        self._changed = threading.Condition()
        self._waiting: dict[str, deque[Claim]] = {}
        # Ordered by key, so that neither submission time nor name decides who is graded first.
        self.jobs = sorted(jobs, key=lambda job: job.key.name)
        for job in self.jobs:
            self._waiting.setdefault(job.key.exercise, deque()).append(Claim(job))
        self.total = self._left = len(self.jobs)
        self._retries: deque[Claim] = deque()
        self._in_flight: Counter[str] = Counter()
        self._outcomes: Counter[Outcome] = Counter()
        self._completed: Counter[str] = Counter(working)
        self._failed: Counter[str] = Counter()
        self._retried = 0
        self._start = time.monotonic()
        self._first_done = 0.0
        self._stopped = False
        self._error: TutorError | None = None
        self.failures: list[JobFailure] = []

    @property
    def progress(self) -> Progress:
        with self._changed:
            now = time.monotonic()
            return Progress(
                total=self.total,
                outcomes=dict(self._outcomes),
                abandoned=len(self.failures),
                in_flight=self._in_flight.total(),
                retried=self._retried,
                elapsed_s=now - self._start,
                since_first_s=now - (self._first_done or now),
            )

    @property
    def is_over(self) -> bool:
        """True if no job is left, or the queue was stopped."""
        return self._stopped or not self._left

    def was_stopped(self) -> bool:
        """Return True if the queue was stopped. It is not a property, because another thread may change it any time."""
        return self._stopped

    def claim(
        self, exercise: str = "", wait: bool = True, fits: Callable[[Job], bool] = lambda job: True
    ) -> Claim | None:
        """Claim a job that `fits`, preferably of `exercise`, which the judge has loaded.

        `fits` is the same for all jobs of an exercise. Return None when the work is over; without `wait`, also if no
        job is left that fits.
        """
        with self._changed:
            while not self.is_over:
                claim = self._next(exercise, fits)
                if claim is not None:
                    self._in_flight[claim.job.key.exercise] += 1
                    return claim
                if not wait:
                    break
                self._changed.wait(1.0)
        return None

    def complete(self, claim: Claim, outcome: Outcome) -> None:
        """Count a claim whose report is in the journal."""
        exercise = claim.job.key.exercise
        with self._changed:
            self._left -= 1
            self._outcomes[outcome] += 1
            self._first_done = self._first_done or time.monotonic()
            self._completed[exercise] += 1
            self._end(exercise)

    def fail(self, claim: Claim, why: str) -> None:
        """Retry a claim without a report later, or give it up."""
        exercise = claim.job.key.exercise
        with self._changed:
            self._failed[exercise] += 1
            is_broken = self._failed[exercise] >= MOST_BROKEN and not self._completed[exercise]
            if is_broken:
                self._give_up_exercise(exercise, why)
            if claim.number < MOST_ATTEMPTS and not is_broken:
                self._retries.append(replace(claim, number=claim.number + 1))
                self._retried += 1
            else:
                self._give_up(claim, why)
            self._end(exercise)

    def abandon(self, claim: Claim, why: str) -> None:
        """Give up a claim that cannot be graded in this run."""
        with self._changed:
            self._give_up(claim, why)
            self._end(claim.job.key.exercise)

    def release(self, claim: Claim) -> None:
        """Return a claim whose job was not graded, or that the stop of the queue ended."""
        with self._changed:
            self._waiting.setdefault(claim.job.key.exercise, deque()).appendleft(claim)
            self._end(claim.job.key.exercise)

    def stop(self, error: TutorError | None = None) -> None:
        """Stop claims of further jobs. `raise_error` raises the first `error`."""
        with self._changed:
            self._stopped = True
            self._error = self._error or error
            self._changed.notify_all()

    def raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def wait(self, timeout_s: float) -> bool:
        """Wait up to `timeout_s`; return True if the work is over."""
        with self._changed:
            return self._changed.wait_for(lambda: self.is_over, timeout_s)

    def wait_for_result(self, timeout_s: float) -> None:
        """Wait up to `timeout_s` for the first result, or for the end of the work."""
        with self._changed:
            self._changed.wait_for(lambda: self.is_over or self._outcomes.total() > 0, timeout_s)

    def _next(self, exercise: str, fits: Callable[[Job], bool]) -> Claim | None:
        left = [name for name, claims in self._waiting.items() if claims and fits(claims[0].job)]
        if not left:
            retry = next((claim for claim in self._retries if fits(claim.job)), None)
            if retry is not None:
                self._retries.remove(retry)
            return retry
        if exercise not in left:
            exercise = max(left, key=lambda name: len(self._waiting[name]) / (1 + self._in_flight[name]))
        return self._waiting[exercise].popleft()

    def _end(self, exercise: str) -> None:
        self._in_flight[exercise] -= 1
        self._changed.notify_all()

    def _give_up(self, claim: Claim, why: str) -> None:
        self._left -= 1
        self.failures.append(JobFailure(claim.job.key, claim.number, why))

    def _give_up_exercise(self, exercise: str, why: str) -> None:
        words = f"Not tried, because the first {MOST_BROKEN} gradings of this exercise failed. The last error: {why}"
        for claim in self._waiting.pop(exercise, deque()):
            self._give_up(replace(claim, number=claim.number - 1), words)
        for claim in [claim for claim in self._retries if claim.job.key.exercise == exercise]:
            self._retries.remove(claim)
            self._give_up(replace(claim, number=claim.number - 1), why)

"""The gradings of a class that are still to be done: who takes which, what became of each, and which are tried again.

What a submission did is a result and final. What broke by itself is tried again, after all others, by another judge.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from gpututor.classroom.jobs import Job, JobFailure
from gpututor.errors import TutorError
from gpututor.grading.journal import has_entry
from gpututor.grading.report import Outcome

MOST_ATTEMPTS = 3
"""At one grading that breaks."""
MOST_BROKEN = 8
"""When the first so many of an exercise that are ever graded break, one after the other, the exercise is broken: the
rest is not tried."""


@dataclass(frozen=True)
class Attempt:
    """One job, taken by somebody."""

    job: Job
    number: int = 1
    """From 1."""


@dataclass(frozen=True)
class Progress:
    """How far the work is."""

    total: int
    """Gradings that were to be done now."""
    outcomes: dict[Outcome, int] = field(default_factory=dict)
    """Those that are done."""
    given_up: int = 0
    in_flight: int = 0
    retried: int = 0
    """Attempts that broke and were made again."""
    elapsed_s: float = 0.0
    since_first_s: float = 0.0
    """Since the first was done: before that the graders start."""

    @property
    def done(self) -> int:
        return sum(self.outcomes.values())

    @property
    def per_s(self) -> float:
        return self.done / self.elapsed_s if self.elapsed_s else 0.0

    @property
    def left_s(self) -> float | None:
        """Seconds until all is done; None where nothing tells yet."""
        left = self.total - self.done - self.given_up
        return left * self.since_first_s / (self.done - 1) if self.done > 1 else None


class WorkQueue:
    """All jobs of one run. Any thread may call anything.

    `working`: exercises of which gradings were done before, so that they are not broken, whatever breaks now.
    """

    def __init__(self, jobs: Iterable[Job], working: Iterable[str] = ()) -> None:
        self._changed = threading.Condition()
        self._waiting: dict[str, deque[Attempt]] = {}
        # By the key's name: who hands in early, or has a certain name, is no sooner at it than others.
        self.jobs = sorted(jobs, key=lambda job: job.key.name)
        for job in self.jobs:
            self._waiting.setdefault(job.key.exercise, deque()).append(Attempt(job))
        self._again: deque[Attempt] = deque()
        self._in_flight: Counter[str] = Counter()
        self._left = self._total = sum(map(len, self._waiting.values()))
        self._outcomes: Counter[Outcome] = Counter()
        self._done_of: Counter[str] = Counter(working)
        self._broken_of: Counter[str] = Counter()
        self._retried = 0
        self._began = time.monotonic()
        self._first_done = 0.0
        self._stopped = False
        self._error: TutorError | None = None
        self.troubles: list[JobFailure] = []

    @property
    def total(self) -> int:
        return self._total

    @property
    def progress(self) -> Progress:
        with self._changed:
            now = time.monotonic()
            elapsed_s, since_first_s = now - self._began, now - (self._first_done or now)
            in_flight = self._in_flight.total()
            counted = (dict(self._outcomes), len(self.troubles), in_flight, self._retried, elapsed_s, since_first_s)
            return Progress(self._total, *counted)

    @property
    def is_over(self) -> bool:
        """Nothing is left, or somebody stopped it."""
        return self._stopped or not self._left

    def was_stopped(self) -> bool:
        """No property: it changes while somebody works."""
        return self._stopped

    def take(self, near: str = "", wait: bool = True, fits: Callable[[Job], bool] = lambda job: True) -> Attempt | None:
        """Take a job that `fits`, of the exercise `near` where one is left, for a judge that has it in mind.

        `fits` is the same for all jobs of an exercise. Return None when the work is over; without `wait`, also where no
        job is left that fits.
        """
        with self._changed:
            while not self.is_over:
                attempt = self._next(near, fits)
                if attempt is not None:
                    self._in_flight[attempt.job.key.exercise] += 1
                    return attempt
                if not wait:
                    break
                self._changed.wait(1.0)
        return None

    def done(self, attempt: Attempt, outcome: Outcome) -> None:
        """Its report stands in the journal."""
        exercise = attempt.job.key.exercise
        with self._changed:
            self._left -= 1
            self._outcomes[outcome] += 1
            self._first_done = self._first_done or time.monotonic()
            self._done_of[exercise] += 1
            self._end(exercise)

    def broke(self, attempt: Attempt, why: str) -> None:
        """It came to no report. It is tried again, or given up."""
        exercise = attempt.job.key.exercise
        with self._changed:
            self._broken_of[exercise] += 1
            if self._broken_of[exercise] >= MOST_BROKEN and not self._done_of[exercise]:
                self._give_up_rest(exercise, why)
            if attempt.number < MOST_ATTEMPTS and not self._is_given_up(exercise):
                self._again.append(replace(attempt, number=attempt.number + 1))
                self._retried += 1
            else:
                self._give_up(attempt, why)
            self._end(exercise)

    def give_up(self, attempt: Attempt, why: str) -> None:
        """Nothing in this run can do it."""
        with self._changed:
            self._give_up(attempt, why)
            self._end(attempt.job.key.exercise)

    def give_back(self, attempt: Attempt) -> None:
        """It was not made, or ended by whoever stopped the work."""
        with self._changed:
            self._waiting.setdefault(attempt.job.key.exercise, deque()).appendleft(attempt)
            self._end(attempt.job.key.exercise)

    def stop(self, error: TutorError | None = None) -> None:
        """Nobody takes anything from now on. `error`: why, for a person; `raise_error` raises the first of them."""
        with self._changed:
            self._stopped = True
            self._error = self._error or error
            self._changed.notify_all()

    def raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def wait(self, timeout_s: float) -> bool:
        """Whether the work is over, after so long at most."""
        with self._changed:
            return self._changed.wait_for(lambda: self.is_over, timeout_s)

    def _next(self, near: str, fits: Callable[[Job], bool]) -> Attempt | None:
        left = [name for name, attempts in self._waiting.items() if attempts and fits(attempts[0].job)]
        if not left:
            again = next((attempt for attempt in self._again if fits(attempt.job)), None)
            if again is not None:
                self._again.remove(again)
            return again
        if near not in left:
            near = max(left, key=lambda exercise: len(self._waiting[exercise]) / (1 + self._in_flight[exercise]))
        return self._waiting[near].popleft()

    def _end(self, exercise: str) -> None:
        self._in_flight[exercise] -= 1
        self._changed.notify_all()

    def _is_given_up(self, exercise: str) -> bool:
        return self._broken_of[exercise] >= MOST_BROKEN and not self._done_of[exercise]

    def _give_up(self, attempt: Attempt, why: str) -> None:
        self._left -= 1
        self.troubles.append(JobFailure(attempt.job.key, attempt.number, why))

    def _give_up_rest(self, exercise: str, why: str) -> None:
        words = f"Not tried, because the first {MOST_BROKEN} gradings of this exercise broke; the last of them: {why}"
        waiting = self._waiting.pop(exercise, deque())
        again = [attempt for attempt in self._again if attempt.job.key.exercise == exercise]
        for attempt in waiting:
            self._give_up(replace(attempt, number=attempt.number - 1), words)
        for attempt in again:
            self._again.remove(attempt)
            self._give_up(replace(attempt, number=attempt.number - 1), why)


def is_in_journal(job: Job) -> bool:
    """Whether its report is there, and whole."""
    return has_entry(Path(job.journal), job.key)
